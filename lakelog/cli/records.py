"""``lakelog append`` and ``lakelog merge``: records in, and the latest table from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lakelog.cli import running
from lakelog.errors import InvalidRequest, LakelogError
from lakelog.terminal import output
from lakelog.terminal.context import Call, Delimiter, Encoding, Name, said, verb
from lakelog.terminal.words import in_cli


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
    delimiter: Delimiter = None,
    encoding: Encoding = None,
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
    from lakelog.terminal.input import as_files, problems_to, require_files
    from lakelog.terminal.progress import watching

    expected = _offsets(expected_offset or [])
    written = said(delimiter=delimiter, encoding=encoding, null=null)
    if source or not files or mirror or decode:
        if files or bulk or expected or token or epoch is not None or problems:
            raise InvalidRequest(
                "--from takes the files or messages of a source once each: no FILE, --bulk, --token, --expected-offset, --epoch or --problems."
            )
        return running.append_from(call, topic, source or [], said(format=format) | written, mirror=mirror, decode=decode)
    if bulk and (expected or token or epoch is not None or "-" in files):
        raise InvalidRequest("--bulk names its chunks and expects their offsets itself: no --token, --expected-offset, --epoch or -.")
    call.require_input_free(files)
    require_files(files, format)
    with problems_to(problems) as listed:
        lake = call.lake([topic], writing=True)
        target = lake.topic(topic)
        doing = f"{topic}: appending {output.count(len(files), 'file')}"
        with as_files(files, format) as paths, watching(doing, lake.spark) as tell:
            form = "ndjson" if files == ["-"] and not format else format
            if bulk:
                from lakelog.inputs.identity import of_files

                loaded = target.load(paths, format=form, **written, identity=of_files(paths), chunk=chunk, tell=tell, problems=listed)
                return call.answer(loaded, output.loaded)
            result = target.append(paths, format=form, **written, expected_offset=expected, token=token, epoch=epoch, problems=listed)
    return call.answer(result, output.appended)


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
    from lakelog.terminal.progress import watching

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


def _offsets(stated: Sequence[str]) -> dict[int, int]:
    """``0:120`` as partition 0, offset 120."""
    found: dict[int, int] = {}
    for text in stated:
        if not re.fullmatch(r"\d+:-?\d+", text):
            raise InvalidRequest(f"--expected-offset {text}: write PARTITION:OFFSET, for example 0:120.")
        partition, offset = map(int, text.split(":"))
        if partition in found:
            raise InvalidRequest(f"--expected-offset names partition {partition} twice: {found[partition]} and {offset}. Name each once.")
        found[partition] = offset
    return found


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the command line."""
    verb(app, example="lakelog append orders orders.ndjson")(append)
    verb(app, example="lakelog merge orders")(merge)
