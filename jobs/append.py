"""Append files, else what is new in the topic's sources; each once: ``python jobs/append.py --root /data/lake --topic orders FILE…``."""

import argparse
import json
import sys
from collections.abc import Sequence

from lakelog.cli.settings import load
from lakelog.errors import LakelogError
from lakelog.inputs.identity import of_files
from lakelog.running.append import append_from


def main(argv: Sequence[str] | None = None) -> int:
    """Parameters in; one line of JSON and the exit code out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="the lake; else LAKELOG_ROOT, else lakelog.toml")
    parser.add_argument("--config", help="a lakelog.toml; else the nearest one upward")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--format", choices=["ndjson", "csv", "parquet"], help="else by the names of the files")
    for option, default in (("--delimiter", ","), ("--encoding", "utf-8"), ("--null", None)):
        parser.add_argument(option, default=default, help="of CSV; --null is the unquoted text that means NULL")
    parser.add_argument("--token", help="the batch's name; else made of the files' names, sizes and contents, never of the time")
    parser.add_argument("files", nargs="*", help="one batch; else the sources that lakelog.toml names for the topic")
    given = parser.parse_args(argv)
    try:
        settings, code = load(root=given.root, config=given.config), 0
        topic, written = settings.open_lake().topic(given.topic), {name: getattr(given, name) for name in ("delimiter", "encoding", "null")}
        if given.files:
            report = topic.append(given.files, format=given.format, **written, token=given.token or of_files(given.files)).to_json()
        else:
            report = json.dumps({"sources": [one.to_dict() for one in append_from(topic, settings.sources.get(given.topic, ()))]})
    except LakelogError as error:
        report, code = json.dumps(error.to_dict(), default=str), error.exit_code
    sys.stdout.write(report + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
