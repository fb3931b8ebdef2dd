"""All that is due for a topic, from its sources on: ``python jobs/run.py --root /data/lake --topic orders``; see ``lakelog run``."""

import argparse
import json
import sys
from collections.abc import Sequence

from lakelog.cli.settings import load
from lakelog.errors import LakelogError
from lakelog.running.interrupt import Signals
from lakelog.running.run import run


def main(argv: Sequence[str] | None = None) -> int:
    """Parameters in; one line of JSON and the exit code out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="the lake; else LAKELOG_ROOT, else lakelog.toml")
    parser.add_argument("--config", help="a lakelog.toml, which names the topic's sources; else the nearest one upward")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--report", help="a file that gets the report too")
    parser.add_argument("--metrics-file", help="a file that gets figures for node-exporter")
    given = parser.parse_args(argv)
    report, code, signals = "", 0, Signals()
    try:
        with signals.guarding():
            settings = load(root=given.root, config=given.config)
            lake, sources = settings.open_lake(), settings.sources.get(given.topic, ())
            signals.started(lake.spark)
            made = run(lake, given.topic, sources, signals=signals, report=given.report, metrics=given.metrics_file)
            report, code = made.to_json(), made.exit_code
    except LakelogError as error:
        report, code = json.dumps(error.to_dict(), default=str), error.exit_code
    sys.stdout.write((report or json.dumps({"error": "INTERRUPTED"})) + "\n")
    return code or (128 + signals.received if signals.received else 0)


if __name__ == "__main__":
    sys.exit(main())
