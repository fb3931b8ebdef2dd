"""``lakelog check`` and ``lakelog quarantine …``: expectations, their verdicts, and records that are not in the log."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakelog.errors import GateFailed, InvalidRequest
from lakelog.model.point_in_time import time_of
from lakelog.terminal import output, told
from lakelog.terminal.context import Call, Form, Limit, Name, verb
from lakelog.terminal.input import key_of

quarantine = typer.Typer(help="List, requeue and drop records that are not in the log.", no_args_is_help=True, rich_markup_mode=None)

Rule = Annotated[str | None, typer.Option(help="Only records that break this rule.")]
Key = Annotated[str | None, typer.Option(help="Only records of this key: text, or JSON of another type.")]
Partition = Annotated[int | None, typer.Option(min=0, help="Only records of this partition.")]
First = Annotated[int | None, typer.Option("--from", min=0, help="Only from this old offset on.")]
End = Annotated[int | None, typer.Option("--to", min=0, help="Only below this old offset.")]
Source = Annotated[str | None, typer.Option(help="Only what this put there, as list shows it.")]
Token = Annotated[str | None, typer.Option(help="Only what was to be appended under this token.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Tell how many records, and do nothing.")]
SHOWN = (
    "reason",
    "rules",
    "partition",
    "offset",
    "epoch",
    "key",
    "value",
    "headers",
    "timestamp",
    "tombstone",
    "source",
    "token",
    "time",
    "raw",
)


def check(
    call: Call,
    topic: Name,
    init: Annotated[bool, typer.Option("--init", help="Write a starting set of suites from the topic's types and table.")] = False,
    folder: Annotated[str | None, typer.Option(metavar="DIRECTORY", help="With --init: where to; else quality.suites.")] = None,
    page: Annotated[str | None, typer.Option(metavar="FILE", help="Write the newest verdicts to this HTML file.")] = None,
) -> None:
    """Audit the latest table with the topic's expectations; exit code 3 where it fails."""
    if folder is not None and not init:
        raise InvalidRequest("--folder goes with --init: an audit reads the folder that quality.suites names.")
    target = call.lake([topic], writing=not init).topic(topic)
    if init:
        with output.working(f"{topic}: looking at the table"):
            made = target.init_suites(folder)
        return call.answer(made, told.initialized)
    with output.working(f"{topic}: auditing"):
        verdict = target.check(page=page)
    call.answer(verdict, told.verdict)
    if not verdict.ok:
        raise typer.Exit(GateFailed.exit_code)
    return None


@verb(quarantine, "list", example="lakelog quarantine list orders")
def list_quarantine(
    call: Call,
    topic: Name,
    rule: Rule = None,
    key: Key = None,
    source: Source = None,
    token: Token = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only what was put there at or after this time.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only what was put there before it.")] = None,
    closed: Annotated[bool, typer.Option("--closed", help="What has left it, without content: requeued, or dropped and why.")] = False,
    format: Form = "table",
    limit: Limit = None,
) -> None:
    """List the records that are not in the log, with the reason and where they came from."""
    from lakelog.delta.tables import door
    from lakelog.quality.selection import order
    from lakelog.terminal import rows

    output.check_form(format)
    target = call.lake([topic]).topic(topic)
    times = {name: None if text is None else time_of(text, what=f"--{name}") for name, text in (("since", since), ("until", until))}
    shown = [*SHOWN[:6], *SHOWN[10:13], "outcome", "closed_at", "note"] if closed else list(SHOWN)
    with door(topic):
        found: Any = target.quarantined(rule=rule, key=key_of(key, target), source=source, token=token, closed=closed, **times)
        rows.frame(found.orderBy(*order()).select(*shown), format, limit=limit, whole=call.json)


@verb(quarantine, example="lakelog quarantine requeue orders")
def requeue(
    call: Call,
    topic: Name,
    rule: Rule = None,
    key: Key = None,
    partition: Partition = None,
    first: First = None,
    end: End = None,
    source: Source = None,
    token: Token = None,
    fix: Annotated[list[str] | None, typer.Option(metavar="COLUMN=SQL", help="Set a column to an SQL expression; may be repeated.")] = None,
    corrected: Annotated[
        str | None, typer.Option(metavar="FILE", help="Records in their place, one for each, as list orders them.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite newer records of their keys (rule offset).")] = False,
    dry_run: Dry = False,
) -> None:
    """Append records of the quarantine to the log again, and take them out of it."""
    fixes = _fixes(fix or [])
    target = call.lake([topic], writing=not dry_run).topic(topic)
    with output.working(f"{topic}: requeueing"):
        done = target.requeue(
            rule=rule, key=key_of(key, target), partition=partition, first=first, end=end, source=source, token=token, fix=fixes or None,
            corrected=corrected, overwrite=overwrite, dry_run=dry_run,
        )  # fmt: skip
    call.answer(done, told.requeued)


@verb(quarantine, example="lakelog quarantine drop orders --reason 'ordered by nobody' --yes")
def drop(
    call: Call,
    topic: Name,
    reason: Annotated[str, typer.Option(help="Why; recorded.")],
    rule: Rule = None,
    key: Key = None,
    partition: Partition = None,
    first: First = None,
    end: End = None,
    source: Source = None,
    token: Token = None,
    dry_run: Dry = False,
) -> None:
    """Take records out of the quarantine for good; asks first. The reason is recorded."""
    target = call.lake([topic], writing=not dry_run).topic(topic)
    which: dict[str, Any] = {"rule": rule, "key": key_of(key, target), "partition": partition, "first": first, "end": end}
    which |= {"source": source, "token": token}
    planned = target.drop(reason, **which, dry_run=True)
    if not dry_run:
        call.confirm(f"Drop {output.count(planned.records, 'record')} of the quarantine of {topic}")
        planned = target.drop(reason, **which)
    call.answer(planned, told.dropped)


def _fixes(stated: list[str]) -> dict[str, str]:
    """``status=lower(status)`` as a column and an expression."""
    found = {}
    for text in stated:
        name, sign, expression = text.partition("=")
        if not sign or not name.strip() or not expression.strip():
            raise InvalidRequest(f"--fix {text}: write COLUMN=SQL, for example --fix 'status=lower(status)'.")
        found[name.strip()] = expression.strip()
    return found


def register(app: typer.Typer) -> None:
    """Add the commands of this file to the command line."""
    verb(app, example="lakelog check orders")(check)
    app.add_typer(quarantine, name="quarantine")
