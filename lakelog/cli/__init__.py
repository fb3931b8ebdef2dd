"""The command line: the only place that reads arguments, the environment and the machine's clock, and that prints.

main.py holds the verbs on records, topics.py those on topics and lakes; both go through context.py (one invocation: settings, session, errors
to exit codes) and print through output.py. settings.py reads ``lakelog.toml`` and the environment; doctor.py and demo.py are verbs of their own.

May import everything below. jobs/ imports settings.py alone.
"""
