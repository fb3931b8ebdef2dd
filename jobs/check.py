"""Audit a topic's latest table with its expectations: ``python jobs/check.py --root /data/lake --topic orders``."""

import argparse
import json
import sys
from collections.abc import Sequence

from lakelog.cli.settings import load
from lakelog.errors import GateFailed, LakelogError


def main(argv: Sequence[str] | None = None) -> int:
    """Parameters in; one line of JSON and the exit code out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="the lake; else LAKELOG_ROOT, else lakelog.toml")
    parser.add_argument("--config", help="a lakelog.toml; else the nearest one upward")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--page", help="an HTML file that gets the newest verdicts")
    given = parser.parse_args(argv)
    try:
        lake = load(root=given.root, config=given.config).open_lake()
        verdict = lake.topic(given.topic).check(page=given.page)
        report, code = verdict.to_json(), 0 if verdict.ok else GateFailed.exit_code
    except LakelogError as error:
        report, code = json.dumps(error.to_dict(), default=str), error.exit_code
    sys.stdout.write(report + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
