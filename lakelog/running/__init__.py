"""A topic run by a scheduler: what its sources hold goes into the log, once.

sources.py says where a topic's records come from (values). directory.py takes the files of a directory, each once, for good: what was taken is in
the log's ledger (log/ledger.py), in the commit of its records. append.py goes through the sources of a topic. interrupt.py ends a command by a
signal in good order.

May import everything below it, `lakelog.lake` included; the command line and jobs/ call it.
"""
