"""The doors to Delta, Spark and the file system. Nothing above this wing knows their classes, settings or errors.

tables.py creates, reads, overwrites and merges tables; small_table.py is one of a lake's own; frames.py makes and keeps frames that belong to none;
past.py reads kept versions, restores, optimizes and vacuums; errors.py turns foreign errors into lakelog's; statement.py makes one commit at a time
and sets session settings for it; lock.py is the lock of a table of a path lake; location.py tells what lies on this machine's disk, object_store.py
whether S3 arbitrates two writers; table_properties.py reads and changes properties; commit_file.py looks at a local table's newest commit without
Spark; commits.py finds the version of a commit; filesystem.py opens, lists and removes files. session.py builds a local session from what
prerequisites.py finds, with the classes of class_archive.py; stopping.py ends what it does, or it. kafka.py is the door to Spark's Kafka source.

May import model, `lakelog.errors` and `lakelog.results`.
"""
