"""Append files to a topic, as one batch, once however often it is run: ``python jobs/append.py --root /data/lake --topic orders FILE…``."""

import sys
from collections.abc import Sequence

from lakelog.job.entry import run


def main(argv: Sequence[str] | None = None) -> int:
    """Parameters in (``--help`` lists them); one line of JSON and the exit code out."""
    return run("append", argv)


if __name__ == "__main__":
    sys.exit(main())
