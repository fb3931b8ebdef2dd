"""The doors to Delta, Spark and the file system. Nothing above this wing knows their classes, settings or errors.

tables.py creates, reads, overwrites and merges tables; errors.py turns foreign errors into lakelog's; statement.py sets session settings for
one statement; plans.py tells from Spark's plan whether a frame repeats itself; table_properties.py reads and changes properties;
commit_file.py looks at a local table's newest commit without Spark; filesystem.py opens files. session.py builds a local session from what
prerequisites.py finds; failpoint.py lets tests kill the process.

May import model, `lakelog.errors` and `lakelog.results`.
"""
