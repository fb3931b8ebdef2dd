"""The command line: ``lakelog VERB``. The same words as in Python; data on stdout, talk on stderr, the exit code by the kind of error.

Nothing here imports Spark before a command needs it: ``lakelog --help`` answers at once.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from lakelog.cli import output, quality, running, snapshots
from lakelog.cli.context import Call, Config, Debug, Delimiter, Encoding, Engine, Form, Json, Limit, Name, Root, Yes, verb
from lakelog.cli.failure import failure, in_cli
from lakelog.cli.readers import readers
from lakelog.cli.topics import lakes, topics
from lakelog.errors import Damaged, InvalidRequest, LakelogError
from lakelog.model.config import did_you_mean
from lakelog.running.interrupt import Signals

app = typer.Typer(
    name="lakelog",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topics, name="topic")
app.add_typer(lakes, name="lake")

At = Annotated[
    str | None, typer.Option("--at", metavar="POINT", help="As it was: a snapshot's name, a silver version, or a time (ISO 8601, UTC).")
]


def _version(asked: bool) -> None:
    if asked:
        from lakelog import __version__

        output.line(f"lakelog {__version__}")
        raise typer.Exit


@app.callback()
def lakelog(
    context: typer.Context,
    root: Root = None,
    config: Config = None,
    json: Json = False,
    yes: Yes = False,
    debug: Debug = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Kafka-style compacted topics on Delta Lake: append, merge, query, travel in time."""
    context.obj = Call(root, config, json, yes, debug, context.obj or Signals())


# ---- the verbs ----


@verb(app, example="lakelog append orders orders.ndjson")
def append(
    call: Call,
    topic: Name,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="NDJSON, CSV or Parquet files, .gz too; - is standard input.")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="SOURCE", help="A directory, or kafka://HOST:PORT/TOPIC, each file and message once."),
    ] = None,
    mirror: Annotated[bool, typer.Option("--mirror", help="Of Kafka: keep partitions, offsets and timestamps.")] = False,
    decode: running.Decode = None,
    format: Annotated[str | None, typer.Option(metavar="ndjson|csv|parquet", help="What the files are; else by their names.")] = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = "utf-8",
    null: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Of CSV: the unquoted text that means NULL, '' for an empty field. A NULL value is a delete.",
        ),
    ] = None,
    expected_offset: Annotated[
        list[str] | None, typer.Option(metavar="PARTITION:OFFSET", help="Refuse unless the partition's log ends there; may be repeated.")
    ] = None,
    token: Annotated[str | None, typer.Option(help="A name for this batch: it is written at most once.")] = None,
    epoch: Annotated[int | None, typer.Option(min=0, help="The generation of the log the writer knows; an older one is refused.")] = None,
    bulk: Annotated[bool, typer.Option("--bulk", help="Write in chunks; killed and started again, go on where the log ends.")] = False,
    chunk: Annotated[int, typer.Option(min=1, help="With --bulk: records a chunk.")] = 1_000_000,
    problems: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every bad record's place and reason there.")] = None,
) -> None:
    """Append files to a topic's log: as one batch, or with --bulk in chunks.

    Without a FILE: what is new in the sources of --from, else in the sources that lakelog.toml names for the topic.
    """
    from lakelog.cli.input import as_files, problems_to, require_files
    from lakelog.cli.progress import watching

    expected = _offsets(expected_offset or [])
    if source or not files or mirror or decode:
        if files or bulk or expected or token or epoch is not None or problems:
            raise InvalidRequest(
                "--from takes the files or messages of a source once each: no FILE, --bulk, --token, --expected-offset, --epoch or --problems."
            )
        return running.append_from(
            call,
            topic,
            source or [],
            {"format": format, "delimiter": delimiter, "encoding": encoding, "null": null},
            mirror=mirror,
            decode=decode,
        )
    if bulk and (expected or token or epoch is not None or "-" in files):
        raise InvalidRequest("--bulk names its chunks and expects their offsets itself: no --token, --expected-offset, --epoch or -.")
    require_files(files, format)
    with problems_to(problems) as listed:
        lake = call.lake([topic], writing=True)
        target = lake.topic(topic)
        doing = f"{topic}: appending {output.count(len(files), 'file')}"
        with as_files(files, format) as paths, watching(doing, lake.spark) as tell:
            written: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding, "null": null}
            form = "ndjson" if files == ["-"] and not format else format
            if bulk:
                from lakelog.inputs.identity import of_files

                loaded = target.load(paths, format=form, **written, identity=of_files(paths), chunk=chunk, tell=tell, problems=listed)
                return call.answer(loaded, output.loaded)
            result = target.append(paths, format=form, **written, expected_offset=expected, token=token, epoch=epoch, problems=listed)
    return call.answer(result, output.appended)


@verb(app, example="lakelog merge orders")
def merge(
    call: Call,
    topic: Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics, merged one after the other.")],
    max_records: Annotated[int | None, typer.Option(min=1, help="At most so many records, rounded up to whole batches.")] = None,
    rebuild: Annotated[bool, typer.Option(help="Fold the whole log anew, as after a change of the ordering rule.")] = False,
    expected_version: Annotated[int | None, typer.Option(min=0, help="Refuse unless the latest table is at this version.")] = None,
    accept: Annotated[str | None, typer.Option(metavar="RUN", help="Let through what this run of the gate refused.")] = None,
    reason: Annotated[str | None, typer.Option(help="With --accept: why; recorded.")] = None,
) -> None:
    """Fold what was appended into the latest table."""
    from lakelog.cli.progress import watching

    if accept is not None and (len(topic) > 1 or not (reason or "").strip()):
        raise InvalidRequest("--accept is about one topic, and takes a --reason, which is recorded.")
    lake = call.lake(topic[:1], writing=True)
    done: list[Mapping[str, Any]] = []
    for number, one in enumerate(topic, start=1):
        try:
            with watching(f"{one}: merging" + (f", {number} of {len(topic)} topics" if len(topic) > 1 else ""), lake.spark):
                result = lake.topic(one).merge(
                    max_records=max_records, rebuild=rebuild, expected_version=expected_version, accept=accept, reason=reason
                )
        except LakelogError as error:
            if len(topic) > 1:
                error.details = {**error.details, "merged": done}
            raise in_cli(error, one) from error.__cause__
        done.append(result.to_dict())
        if not call.json:
            output.merged(result)
    if call.json:
        output.document(done[0] if len(topic) == 1 else {"merged": done})


@verb(app, example='lakelog sql "SELECT * FROM orders"')
def sql(
    call: Call,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT, WITH, VALUES, SHOW, DESCRIBE or EXPLAIN.")],
    at: At = None,
    format: Form = "table",
    limit: Limit = None,
    engine: Annotated[str, typer.Option(metavar="spark|duckdb", help="duckdb is without Java, and in DuckDB's dialect of SQL.")] = "spark",
) -> None:
    """Query the views of every topic.

    Of a topic orders: orders (live rows), orders_deleted (tombstones), orders_log (records).
    """
    from lakelog.cli import rows
    from lakelog.delta.tables import door
    from lakelog.model.queries import begun

    output.check_form(format)
    _check_at(at)
    begun(query)
    if engine not in ("spark", "duckdb"):
        raise InvalidRequest(f"--engine {engine}: must be one of spark, duckdb.{did_you_mean(engine, ('spark', 'duckdb'))}")
    lake = call.lake() if engine == "spark" else call.reading(engine="native")
    if at is not None and at.isdigit() and len(lake.topics()) > 1:
        raise InvalidRequest(f"--at {at}: every topic counts its own versions. Give a time, or ask one: lakelog latest TOPIC --at {at}")
    with output.working("querying"), _query(engine), door(lake.root):
        rows.frame(lake.sql(query, at=at, engine=engine), format, limit=limit, whole=call.json)


@verb(app, example="lakelog latest orders --at 1")
def latest(
    call: Call,
    topic: Name,
    at: At = None,
    deleted: Annotated[bool, typer.Option(help="The tombstones in place of the live rows.")] = False,
    format: Form = "table",
    limit: Limit = None,
    engine: Engine = "auto",
) -> None:
    """Show a topic's latest table: a live row per key, by partition and offset."""
    from lakelog.cli import rows
    from lakelog.delta.tables import door

    output.check_form(format)
    _check_at(at)
    source = call.reading([topic], engine).topic(topic)
    with door(topic):
        found = (source.deleted(at) if deleted else source.latest(at)).orderBy("_partition", "_offset")
        rows.frame(found, format, limit=limit, whole=call.json)


@verb(app, example="lakelog verify orders")
def verify(
    call: Call,
    topic: Name,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what is wrong: a new epoch at the log's end, the latest table anew.")
    ] = False,
    sample: Annotated[float, typer.Option(metavar="SHARE", help="Recompute this share of the keys, above 0 and at most 1.")] = 1.0,
) -> None:
    """Prove a topic by recomputation: other writers, offsets, the latest table."""
    if repair:
        with output.working(f"{topic}: verifying and repairing"):
            mended = call.lake([topic]).topic(topic).repair()
        return call.answer(mended, output.repaired)
    with output.working(f"{topic}: verifying"):
        found = call.lake([topic]).topic(topic).verify(sample=sample)
    call.answer(found, output.verified)
    if not found.ok:
        raise typer.Exit(Damaged.exit_code)
    return None


snapshots.register(app)
quality.register(app)
running.register(app)
app.add_typer(readers)


@verb(app, example="lakelog doctor")
def doctor(
    call: Call, spark: Annotated[bool, typer.Option("--spark", help="Start Spark too, and write and read a small Delta table.")] = False
) -> None:
    """Tell what is wrong here, and what to do."""
    from lakelog.cli import doctor as checks

    found = checks.examine(call.settings, spark=spark)
    checks.report(found, as_json=call.json)
    if any(check.state == "fail" for check in found):
        raise typer.Exit(2)


@verb(app, example="lakelog shell")
def shell(
    call: Call,
    engine: Annotated[
        str | None, typer.Option(metavar="duckdb|spark", help="Who answers queries; else DuckDB where the lake can be read without Java.")
    ] = None,
) -> None:
    """Type verbs and SQL, one start for all; or give a script on standard input."""
    from lakelog.cli import root as place
    from lakelog.cli import shell as shells

    if engine not in (None, *shells.ENGINES):
        raise InvalidRequest(f"--engine {engine}: must be one of {', '.join(shells.ENGINES)}.")
    settings = call.settings()
    native = not place.why_not_here(settings)
    options = ["--root", settings.lake_root(), *(["--config", call.config] if call.config else []), *(["--debug"] if call.debug else [])]
    verbs = {name: [*getattr(one, "commands", ())] for name, one in typer.main.get_group(app).commands.items()}
    opened = shells.Shell(main, options, verbs, settings.open_native if native else None, engine or ("duckdb" if native else "spark"))
    code = shells.converse(opened) if shells.is_terminal() else opened.script(sys.stdin)
    if code:
        raise typer.Exit(code)


@verb(app, example="lakelog demo --into ./demo")
def demo(
    call: Call, into: Annotated[Path | None, typer.Option(help="A new or empty folder; else a temporary one, which stays.")] = None
) -> None:
    """The whole path on real data, step by step."""
    from lakelog.cli import demo as tour

    tour.run(main, folder=into)


# ---- arguments ----


@contextmanager
def _query(engine: str) -> Iterator[None]:
    """What is wrong with the user's own SQL is no defect of ours."""
    if engine == "duckdb":
        yield
        return
    from pyspark import errors

    wrong = (errors.AnalysisException, errors.ArithmeticException, errors.ArrayIndexOutOfBoundsException, errors.DateTimeException,
             errors.NumberFormatException, errors.SparkRuntimeException)  # fmt: skip
    try:
        yield
    except wrong as error:
        first = next(iter(str(error).strip().splitlines()), "")
        raise InvalidRequest(f"The query is wrong: {first}", name="INVALID_QUERY") from error


def _offsets(stated: Sequence[str]) -> dict[int, int]:
    """``0:120`` as partition 0, offset 120."""
    found = {}
    for text in stated:
        if not re.fullmatch(r"\d+:-?\d+", text):
            raise InvalidRequest(f"--expected-offset {text}: write PARTITION:OFFSET, for example 0:120.")
        partition, offset = text.split(":")
        found[int(partition)] = int(offset)
    return found


def _check_at(at: str | None) -> None:
    from lakelog.lake.lake import system_clock
    from lakelog.model.point_in_time import is_name, moment

    if not is_name(at):
        moment(at, now=system_clock())


# ---- the entry ----


def main(argv: Sequence[str] | None = None, signals: Signals | None = None) -> int:
    """Run one command and return its exit code: 0, or that of the error (see `lakelog.errors`), 1 for a defect, 130 when interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    signals = signals or Signals()
    caught: BaseException | None = None
    code = 0
    try:
        with warnings.catch_warnings(), signals.guarding():
            warnings.simplefilter("ignore")
            code = int(typer.main.get_command(app).main(args=arguments, prog_name="lakelog", standalone_mode=False, obj=signals) or 0)
    except (KeyboardInterrupt, Exception) as error:
        caught = error
    # A run reports by itself what ended it.
    if caught is None and (code or signals.received is None):
        return code
    if isinstance(caught, BrokenPipeError):
        sys.stdout = open(os.devnull, "w")
        return 0
    if type(caught).__name__ == "NoArgsIsHelpError":
        output.say(str(caught))
        return 2
    failed = failure(caught, signals.received)
    if "--debug" in flags and caught is not None:
        traceback.print_exception(caught)
    output.say(f"Error ({failed.name}): {' '.join(str(failed).split())}")
    if "--json" in flags:
        output.document(failed.to_dict())
    return failed.exit_code


if __name__ == "__main__":
    sys.exit(main())
