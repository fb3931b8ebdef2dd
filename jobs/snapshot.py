"""Take a snapshot of a topic: ``python jobs/snapshot.py --root /data/lake --topic orders --name friday --keep "90 days"``."""

import sys
from collections.abc import Sequence

from lakelog.job.entry import run


def main(argv: Sequence[str] | None = None) -> int:
    """Parameters in (``--help`` lists them); one line of JSON and the exit code out."""
    return run("snapshot", argv)


if __name__ == "__main__":
    sys.exit(main())
