"""Merge, then remove from a topic's log what nobody needs: ``python jobs/clean.py --root /data/lake --topic orders``."""

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
    parser.add_argument("--force", action="store_true", help="whatever the dirty ratio")
    parser.add_argument("--max-bytes", type=int, help="octets of records to write again at most")
    parser.add_argument("--dry-run", action="store_true", help="report what would be done, write nothing")
    given = parser.parse_args(argv)
    try:
        lake = load(root=given.root, config=given.config).open_lake()
        cleaned = lake.topic(given.topic).clean(dry_run=given.dry_run, force=given.force, max_bytes=given.max_bytes)
        # A partition that could not be cleaned is named in the report; a run again goes on with it.
        report, code = cleaned.to_json(), 75 if any(one.error for one in cleaned.partitions) else 0
    except LakelogError as error:
        report, code = json.dumps(error.to_dict(), default=str), error.exit_code
    sys.stdout.write(report + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
