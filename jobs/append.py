"""Append files, else what is new in the topic's sources; each once: ``python jobs/append.py --root /data/lake --topic orders FILE…``."""

import sys
from collections.abc import Sequence

from lakelog.job.entry import run


def main(argv: Sequence[str] | None = None) -> int:
    """Parameters in (``--help`` lists them); one line of JSON and the exit code out."""
    return run("append", argv)


if __name__ == "__main__":
    sys.exit(main())
