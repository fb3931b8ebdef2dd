"""What the command line takes and prints: the only place that reads arguments, the environment and the machine's clock.

context.py is one invocation: its settings, its session, the common options. settings.py reads ``lakelog.toml`` and the environment; root.py tells
what is wrong with a root before Spark starts, and who reads it, Spark or native/; input.py names the files of an append, keys and settings;
named.py its sources. Results are printed by output.py and told.py, standing.py says where topics stand, rows.py prints frames; progress.py shows
how far a long command is; failure.py is what ended a command, words.py says errors in the words of the command line.

May import everything below. cli/ uses all of it, job/ settings.py, named.py and words.py.
"""
