"""Where a topic's records come from, beside files that are named: directories, Delta tables, topics of Kafka, streams; each record once.

configured.py says what a source is, as ``lakelog.toml`` and the command line have it (values), kafka_source.py where that is Kafka.
directory.py takes the files of a directory, each once, for good: what was taken is in the log's ledger (log/ledger.py), in the commit of its
records; table.py takes what was appended to a Delta table, version by version; kafka.py what was produced to a topic of Kafka, in the steps
that offsets.py decides on, with the secrets that secrets.py finds by reference; streaming.py is handed the batches of a stream. append.py goes
through the sources of a topic; unconfigured.py refuses to go on without any where the log was filled by some.

May import `lakelog.lake` and the wings below it. Others use ``configured``, ``kafka_source``, `append.append_from`,
`unconfigured.require_configured` and `streaming.BatchAppender`.
"""
