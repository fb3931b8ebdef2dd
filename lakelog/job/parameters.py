"""The parameters of a job: ``VERB --topic orders …``. Wrong ones raise; nothing here ends the process."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from lakelog.errors import InvalidRequest

VERBS = ("run", "append", "merge", "snapshot", "restore", "check", "clean", "maintain")


class HelpShown(Exception):
    """The help was asked for, and was printed."""


class Parser(argparse.ArgumentParser):
    """A parser that raises where argparse ends the process: Databricks takes any `SystemExit` for a failure."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments.

        Raises:
            InvalidRequest: with the usage.
        """
        raise InvalidRequest(f"{message[:1].upper()}{message[1:]}. {' '.join(self.format_usage().split())}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Called by ``--help``, after it was printed.

        Raises:
            HelpShown: always.
        """
        raise HelpShown


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """A job's arguments, ``verb`` and ``topic`` among them.

    Raises:
        InvalidRequest: there is no such verb or option, a value is missing or of the wrong kind.
        HelpShown: ``--help`` was among them.
    """
    return _parser().parse_args(list(arguments))


def _parser() -> Parser:
    parser = Parser(prog="lakelog-job", description="Run one verb on one topic, and report it as one line of JSON.", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)

    def verb(name: str, says: str) -> Parser:
        one = verbs.add_parser(name, help=says, description=says, allow_abbrev=False)
        one.add_argument("--root", help="the lake; else LAKELOG_ROOT, else lakelog.toml")
        one.add_argument("--config", help="a lakelog.toml; else the nearest one upward")
        one.add_argument("--topic", required=True, type=_stated)
        return one

    run = verb("run", "All that is due: append from the sources of lakelog.toml, merge, snapshot, clean, check.")
    run.add_argument("--report", type=_stated, help="a file that gets the report too")
    run.add_argument("--metrics-file", type=_stated, help="a file that gets figures for node-exporter")
    run.add_argument("--wait", type=_stated, help="how long to wait where another run is under way: '10 minutes'; else refused with 75")

    _takes_records(
        verb(
            "append",
            "Append what is new in the topic's sources, each file once for good; or files, as one batch, once however often it is run.",
        )
    )

    merge = verb("merge", "Fold what was appended into the latest table.")
    merge.add_argument("--max-records", type=int, help="at most so many, rounded up to whole batches")
    merge.add_argument("--rebuild", action="store_true", help="fold the whole log anew, once after a change of the ordering rule")

    snapshot = verb("snapshot", "Merge, and take a snapshot of the latest table.")
    snapshot.add_argument("--name", type=_stated, help="its name; without one, retention may remove it")
    snapshot.add_argument("--keep", help="how long the name is kept: '90 days', '12 hours', forever")
    snapshot.add_argument("--note", help="a text for people")

    restore = verb("restore", "Bring the topic back to a snapshot; it does not ask.")
    restore.add_argument("--to", required=True, type=_stated, help="a snapshot's name or id, a silver version, or a time")
    restore.add_argument("--log", choices=["truncate", "keep"], default="truncate", help="what lies beyond leaves the log, or is replayed")
    restore.add_argument("--dry-run", action="store_true", help="tell what would be done")

    check = verb("check", "Audit the latest table with the topic's expectations.")
    check.add_argument("--page", help="an HTML file that gets the newest verdicts")

    clean = verb("clean", "Merge, then remove from the log what nobody needs.")
    clean.add_argument("--force", action="store_true", help="whatever the dirty ratio")
    clean.add_argument("--max-bytes", type=int, help="octets of dirty segments to clean at most")
    clean.add_argument("--dry-run", action="store_true", help="report what would be done, write nothing")

    verb("maintain", "Keep the tables in shape, never past a kept snapshot.")
    return parser


def _takes_records(append: Parser) -> None:
    """Where an append takes its records from, and how they are written."""
    append.add_argument(
        "--from",
        dest="sources",
        action="append",
        type=_stated,
        metavar="SOURCE",
        help="a directory, or kafka://HOST:PORT/TOPIC; else lakelog.toml's",
    )
    append.add_argument("--mirror", action="store_true", help="of Kafka: keep partitions, offsets and timestamps of the messages")
    append.add_argument(
        "--decode", type=_stated, metavar="key=FORM,value=FORM", help="of Kafka: json, debezium, avro:FILE, avro:ID=FILE;ID=FILE"
    )
    append.add_argument("--format", choices=["ndjson", "csv", "parquet"], help="of files; else by their names")
    append.add_argument("--delimiter", help="of CSV; else a comma")
    append.add_argument("--encoding", help="of CSV; else utf-8")
    append.add_argument("--null", help="of CSV: the unquoted text that means NULL")
    append.add_argument("--token", help="the batch's name; else made of the files' names, sizes and contents, never of the time")
    append.add_argument("files", nargs="*", type=_stated, metavar="FILE", help="one batch; else what is new in the sources")


def _stated(text: str) -> str:
    """A value that must be there: a scheduler that fills in nothing gives an empty one."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the value is empty")
    return text
