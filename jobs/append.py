"""Append files to a topic, as one batch, once however often it is run: ``python jobs/append.py --root /data/lake --topic orders FILE…``."""

import argparse
import json
import sys
from collections.abc import Sequence

from lakelog.cli.settings import load
from lakelog.errors import LakelogError
from lakelog.inputs.identity import of_files


def main(argv: Sequence[str] | None = None) -> int:
    """Parameters in; one line of JSON and the exit code out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="the lake; else LAKELOG_ROOT, else lakelog.toml")
    parser.add_argument("--config", help="a lakelog.toml; else the nearest one upward")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--format", choices=["ndjson", "csv", "parquet"], help="else by the names of the files")
    parser.add_argument("--delimiter", default=",", help="of CSV")
    parser.add_argument("--encoding", default="utf-8", help="of CSV")
    parser.add_argument("--null", help="of CSV: the unquoted text that means NULL")
    parser.add_argument("--token", help="the batch's name; else made of the files' names, sizes and contents, never of the time")
    parser.add_argument("files", nargs="+")
    given = parser.parse_args(argv)
    try:
        lake = load(root=given.root, config=given.config).open_lake()
        token = given.token or of_files(given.files)
        written = {"format": given.format, "delimiter": given.delimiter, "encoding": given.encoding, "null": given.null}
        report, code = lake.topic(given.topic).append(given.files, **written, token=token).to_json(), 0
    except LakelogError as error:
        report, code = json.dumps(error.to_dict(), default=str), error.exit_code
    sys.stdout.write(report + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
