"""All that is due for a topic, from its sources on: ``python jobs/run.py --root /data/lake --topic orders``; see ``lakelog run``."""

import sys
from collections.abc import Sequence

from lakelog.job.entry import run


def main(argv: Sequence[str] | None = None) -> int:
    """Parameters in (``--help`` lists them); one line of JSON and the exit code out."""
    return run("run", argv)


if __name__ == "__main__":
    sys.exit(main())
