"""A topic as a directory of Parquet files: exported at a snapshot, with the log from its end, and imported under another root.

export.py writes the latest table at the snapshot and the log from its end offsets on, then the manifest; load.py checks every file against the
manifest and makes a topic of them. manifest.py says what such a directory holds, and how its files are read and hashed;
exports.py lists the exports of a lake, so that an erased key leaves them, too.

May import snapshots, operations, readers, latest, log, delta and model. Others use ``export``, ``load`` and ``exports``.
"""
