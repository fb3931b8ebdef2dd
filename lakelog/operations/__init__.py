"""What touches several tables of a topic: each step can be cut off, so each operation says first what it is about to do.

An operation writes its *intent* as a state row into every partition of the log: appends under way conflict with it, later ones are refused.
Then it does its work in steps that pass over what is done already, and closes the intent. create.py and delete.py make and remove a topic's
tables; configure.py changes settings and types; repair.py brings a log that was changed by hand back into order, by missing.py that says
what it lacks, and by replay.py where the log alone does not give the latest table: that begins with a snapshot. upgrade.py brings tables of
an older format up to this one; truncate.py cuts the log off below a snapshot; erase.py removes a key for good, by quotes.py from the texts
that quote it too. intents.py lets the next writing verb finish what was cut off.

May import snapshots, readers, latest, log, delta and model. `lakelog.topic` and the lake call it.
"""
