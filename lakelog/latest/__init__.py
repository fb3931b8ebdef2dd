"""Silver, the latest table: one row per (partition, key), folded from the log under the topic's ordering rule.

merge.py decides how far to fold, under one pinned view: silver's progress (progress.py, by what control_rows.py reads) and bronze at one version
each. fold.py finds the winner of each key in the new part of the log; compare.py puts the winners next to silver's rows, fill.py does both for a
large slice where silver holds none; upsert.py writes the changes and all control rows in one commit that is gated by the control rows it replaces,
rebuild.py all rows anew; silver.py says what the table looks like. evolution.py gives silver the types its topic has. views.py is what people
query; status.py counts what is where; verify.py proves a topic: recompute.py folds its log by another way. erased.py is the list of erased keys,
and leaves their rows out.

May import log, delta and model. Others use ``merge``, ``upsert`` (write_progress), ``rebuild``, ``silver``, ``progress``, ``views``, ``status``,
``verify``, ``evolution`` and ``erased``.
"""
