"""Take a snapshot of a topic: ``python jobs/snapshot.py --root /data/lake --topic orders --name friday --keep "90 days"``."""

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
    parser.add_argument("--name", help="its name; without one, retention may remove it")
    parser.add_argument("--keep", help="how long the name is kept: '90 days', '12 hours', forever")
    parser.add_argument("--note", help="a text for people")
    given = parser.parse_args(argv)
    try:
        lake = load(root=given.root, config=given.config).open_lake()
        report, code = lake.topic(given.topic).snapshot(given.name, keep=given.keep, note=given.note).to_json(), 0
    except LakelogError as error:
        report, code = json.dumps(error.to_dict(), default=str), error.exit_code
    sys.stdout.write(report + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
