"""The log kept small: what nobody needs any more leaves its closed segments, without changing what anyone can learn from it.

plan.py decides what a clean does to a partition, from the sizes and times of its segments (values, no I/O). checkpoint.py knows where the last
clean ended, segments.py how large segments are, by control rows alone; winners.py has the latest table as the cleaner needs it. dropping.py counts
what goes and writes segments again without it; tombstones.py lets silver's tombstones expire, forgetting.py tells which versions are not forgotten
yet. planned.py is a clean as a value, clean.py puts the steps in their order; retention.py moves the log start, roll.py closes active segments.
explain.py tells why a key has the record it has, and what another rule would change; contest.py decides that among one key's records. receipt.py
tells what still holds an erased key (operations/erase.py). verbs.py is what a topic can do with all that.

May import operations, latest, log, inputs, delta and model. Others use `verbs.CleaningVerbs`.
"""
