"""The reading verbs without a JVM: the same tables through delta-rs, with DuckDB for SQL. The same checks, words, results and errors as through Spark;
only what reads files is another.

opening.py is the door: it opens a Delta table at a version, and foreign errors become lakelog's there; table.py has its properties, commits and
rows. stores.py knows which stores it opens, and where it may write. commits.py is what commit files and their names say, past.py a table at an
earlier version while its files are kept. rows.py is what a verb answers rows with: a frame of this process, in Spark's types; shapes.py has these
as Arrow's. log.py reads the log's end, state and records, inspection.py whether it is as appends leave it, latest.py the latest table, its progress
and the status; snapshots.py and lag.py read what the lake has registered: snapshots and groups of readers. All let the wings below decide. topic.py
is a topic with the reading verbs. query.py knows the views in DuckDB.

Needs the extra ``native`` and no pyspark. What delta-rs cannot read (a table feature it does not know) is `NotReady`, which names Spark as the way.

May import cleaning, readers, snapshots, quality, log, latest, delta (values and errors alone) and model. Others use ``topic``, ``table``,
``stores`` and ``query``.
"""
