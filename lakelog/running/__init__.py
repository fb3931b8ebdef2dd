"""A topic run by a scheduler: what its sources hold goes into the log, once; then all that is due for it, in one go, with a report.

sources.py says where a topic's records come from (values). directory.py takes the files of a directory, each once, for good: what was taken is in
the log's ledger (log/ledger.py), in the commit of its records; table.py takes what was appended to a Delta table, version by version. append.py
goes through the sources of a topic. steps.py holds the steps of a run in their order, run.py goes through them up to the first that is refused
and reports, whatever becomes of it: provenance.py tells with what and from where, runs.py adds the row to the lake's table of runs, report_files.py
writes the JSON and the figures for node-exporter. lease.py lets one run of a topic be under way at a time, holder.py knows whether its process is
gone. interrupt.py ends a command or a run by a signal in good order.

The status page: table_reader.py reads the lake's own tables by either lane, overview.py puts together what is told, growth.py makes series of
it, charts.py draws them, page.py writes the HTML.

May import everything below it, `lakelog.lake` included; the command line and jobs/ call it.
"""
