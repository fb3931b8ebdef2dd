"""Bring a topic back to a snapshot: ``python jobs/restore.py --root /data/lake --topic orders --to friday``; it does not ask."""

import sys
from collections.abc import Sequence

from lakelog.job.entry import run


def main(argv: Sequence[str] | None = None) -> int:
    """Parameters in (``--help`` lists them); one line of JSON and the exit code out."""
    return run("restore", argv)


if __name__ == "__main__":
    sys.exit(main())
