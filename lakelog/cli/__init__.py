"""The command line: ``lakelog VERB``.

main.py is its entry, with the options that all verbs have. records.py holds the verbs that bring records in, queries.py those that ask the latest
table, readers.py those that read the log and register readers, topics.py those on topics and lakes, snapshots.py those on snapshots, quality.py those
on expectations and the quarantine, running.py those on sources and runs; doctor.py, demo.py and shell.py are verbs of their own; statements.py cuts
what is typed into the shell. All take their arguments, and print, by terminal/.

May import everything below.
"""

from __future__ import annotations

import signal
import sys


def command() -> int:
    """The command ``lakelog``: `lakelog.cli.main.main`; Ctrl-C while that is still being imported ends it as later."""
    try:
        from lakelog.cli.main import main
    except KeyboardInterrupt:
        from lakelog.running.interrupt import Interrupted
        from lakelog.terminal import output

        stopped = Interrupted(signal.SIGINT)
        output.failed(stopped, as_json="--json" in sys.argv)
        return stopped.exit_code
    return main()
