"""A topic run by a scheduler: what its sources hold goes into the log, once; then all that is due for it, in one go, with a report.

sources.py says where a topic's records come from (values), kafka_source.py where that is Kafka. directory.py takes the files of a
directory, each once, for good: what was taken is in the log's ledger (log/ledger.py), in the commit of its records; table.py takes what was
appended to a Delta table, version by version; kafka.py what was produced to a topic of Kafka, in the steps that offsets.py decides on, with
the secrets that secrets.py finds by reference; streaming.py is handed the batches of a stream. append.py goes through the sources of a
topic. steps.py holds the steps of a run in their order, run.py goes through them up to the first that is refused and reports, whatever
becomes of it: runs.py adds the row to the lake's table of runs, report_files.py writes the JSON and the figures for node-exporter.
interrupt.py ends a command or a run by a signal in good order.

May import everything below it, `lakelog.lake` included; the command line and jobs/ call it.
"""
