"""``lakelog sql``, ``lakelog latest`` and ``lakelog verify``: the latest table asked, and proved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from lakelog.errors import Damaged, InvalidRequest
from lakelog.model.config import did_you_mean
from lakelog.terminal import output
from lakelog.terminal.context import Call, Engine, Form, Limit, Name, OfText, verb

At = Annotated[
    str | None, typer.Option("--at", metavar="POINT", help="As it was: a snapshot's name, a silver version, or a time (ISO 8601, UTC).")
]


def sql(
    call: Call,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="One SELECT, WITH, VALUES, SHOW, DESCRIBE or EXPLAIN; - reads it from stdin.")
    ],
    at: At = None,
    format: Form = "table",
    limit: Limit = None,
    engine: Annotated[
        str, typer.Option(metavar="spark|duckdb", help='duckdb is without Java, and in DuckDB\'s dialect ("offset" in quotes).')
    ] = "spark",
) -> None:
    """Query the views of every topic.

    Of a topic orders: orders (live rows), orders_deleted (tombstones), orders_log (records, as they are now whatever --at says).
    """
    from lakelog.model.queries import begun
    from lakelog.terminal import rows
    from lakelog.terminal.input import standard_input

    output.check_form(format)
    _check_at(at)
    if query == "-":
        call.require_input_free([query])
        query = standard_input().read().removeprefix("\ufeff")
    _, word = begun(query)
    if engine not in ("spark", "duckdb"):
        raise InvalidRequest(f"--engine {engine}: must be one of spark, duckdb.{did_you_mean(engine, ('spark', 'duckdb'))}")
    lake = call.lake() if engine == "spark" else call.reading(engine="native")
    if at is not None and at.isdecimal() and len(lake.topics()) > 1:
        raise InvalidRequest(f"--at {at}: every topic counts its own versions. Give a time, or ask one: lakelog latest TOPIC --at {at}")
    with output.working("querying"), _query(engine), lake.reading(at):
        found = lake.sql(query, at=at, engine=engine)
        if word == "EXPLAIN" and format == "table" and not call.json:
            return rows.plan(found)
        rows.frame(found, format, limit=limit, whole=call.json, more="" if call.signals.ends_session else rows.IN_QUERY)
    return None


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
    from lakelog.terminal import rows

    output.check_form(format)
    _check_at(at)
    source = call.reading([topic], engine).topic(topic)
    with source.reading(at):
        found = (source.deleted(at) if deleted else source.latest(at)).orderBy("_partition", "_offset")
        rows.frame(found, format, limit=limit, whole=call.json)


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


def _check_at(at: str | None) -> None:
    from lakelog.lake.lake import system_clock
    from lakelog.model.point_in_time import is_name, moment

    if not is_name(at):
        moment(at, now=system_clock())


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the command line."""
    verb(app, example='lakelog sql "SELECT * FROM orders"', kind=OfText)(sql)
    verb(app, example="lakelog latest orders --at 1")(latest)
    verb(app, example="lakelog verify orders")(verify)
