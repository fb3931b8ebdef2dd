"""Bring a topic back to a snapshot: ``python jobs/restore.py --root /data/lake --topic orders --to friday``; it does not ask."""

import argparse
import json
import sys
from collections.abc import Sequence

from lakelog.cli.settings import load
from lakelog.errors import LakelogError


def main(argv: Sequence[str] | None = None) -> int:
    """Parameters in; one line of JSON and the exit code out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="the lake; else LAKELOG_ROOT, else lakelog.toml")
    parser.add_argument("--config", help="a lakelog.toml; else the nearest one upward")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--to", required=True, help="a snapshot's name or id, a silver version, or a time")
    parser.add_argument("--log", choices=["truncate", "keep"], default="truncate", help="what lies beyond leaves the log, or is replayed")
    parser.add_argument("--dry-run", action="store_true", help="tell what would be done")
    given = parser.parse_args(argv)
    try:
        lake = load(root=given.root, config=given.config).open_lake()
        done = lake.topic(given.topic).restore(given.to, log=given.log, dry_run=given.dry_run, unless_there=True)
        report, code = done.to_json(), 0
    except LakelogError as error:
        report, code = json.dumps(error.to_dict(), default=str), error.exit_code
    sys.stdout.write(report + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
