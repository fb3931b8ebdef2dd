"""A topic run by a scheduler: what its sources hold goes into the log, once; then all that is due for it, in one go, with a report.

steps.py holds the steps of a run in their order, run.py goes through them up to the first that is refused and reports, whatever becomes of it:
provenance.py tells with what and from where, runs.py adds the row to the lake's table of runs, report_files.py writes the JSON and the figures
for node-exporter. lease.py lets one run of a topic be under way at a time, keeper.py prolongs that within a step, holder.py knows whether its process
is gone. interrupt.py ends a command or a run by a signal in good order.

May import sources and everything below it, `lakelog.lake` included; the command line and jobs/ call it.
"""
