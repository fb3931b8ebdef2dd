"""Merge, then remove from a topic's log what nobody needs: ``python jobs/clean.py --root /data/lake --topic orders``."""

import sys
from collections.abc import Sequence

from lakelog.job.entry import run


def main(argv: Sequence[str] | None = None) -> int:
    """Parameters in (``--help`` lists them); one line of JSON and the exit code out."""
    return run("clean", argv)


if __name__ == "__main__":
    sys.exit(main())
