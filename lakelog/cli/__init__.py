"""The command line: the only place that reads arguments, the environment and the machine's clock, and that prints.

main.py holds the verbs on records, readers.py those that read the log and register readers, topics.py those on topics and lakes,
snapshots.py those on snapshots, quality.py those on expectations and the quarantine, running.py those on sources and runs; all go through
context.py (one invocation: settings, session, common options) and print through output.py and told.py, frames through rows.py. settings.py
reads ``lakelog.toml`` and the environment; root.py tells what is wrong with a root before Spark starts, and who reads it, Spark or native/;
input.py names the files of an append; progress.py shows how far it is; failure.py says errors in the words of the command line. doctor.py,
demo.py and shell.py are verbs of their own.

May import everything below. job/ imports settings.py alone.
"""
