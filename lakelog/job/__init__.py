"""What a scheduler starts: one verb with its parameters, one line of JSON on stdout, an exit code or an exception.

parameters.py reads the arguments; verbs.py runs the verb on a topic of the lake that ``terminal/settings.py`` finds; entry.py is what is called: by
``jobs/*.py``, which end with an exit code, and by ``lakelog-job``, the wheel's entry point for Databricks, which returns or raises.

May import everything below, of terminal/ settings.py alone. jobs/ imports entry.py alone.
"""
