"""Silver, the latest table: one row per (partition, key), folded from the log under the topic's ordering rule.

merge.py decides how far to fold; fold.py finds the winner of each key in the new part of the log; compare.py puts the winners next to silver's
rows, fill.py does both for a large slice where silver holds none; silver.py writes the changes and the progress (progress.py) in one commit.
views.py is what people query; status.py says where a topic stands; verify.py recomputes silver from the log; evolution.py widens the value
type.

May import log, delta and model. Others use ``merge.merge``, ``silver.rows``, ``views``, ``status``, ``verify`` and ``evolution``.
"""
