"""Readers of the log that start anywhere and know where they are: positions, and what became of what they have read.

A reader begins with bootstrap.py (the latest table and the position from which the log goes on) or at a position of its own. validate.py tells
where it stands: go on, go back (a restore cut records away), or load a snapshot (the log no longer tells all). read.py gives the records from
there on, whole or in bounded batches, with the next position. A reader may register its position (positions.py, a table of the lake): then
the log is not truncated beyond it; lag.py tells how far behind each group is.

May import latest, log, delta and model. Others use ``validate``, ``read``, ``bootstrap``, ``positions`` and ``lag``.
"""
