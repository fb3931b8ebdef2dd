"""The status page: one HTML file that needs nothing else, no script, no network. Every text of others is escaped."""

from __future__ import annotations

import datetime
import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakelog.errors import InvalidRequest
from lakelog.page import charts, growth
from lakelog.page.charts import octets
from lakelog.page.overview import Overview, TopicView
from lakelog.quality.pages import POLICY
from lakelog.running import report_files

# So many runs and verdicts have a row, and runs a bar.
ROWS, BARS = 20, 40
STYLE = """
:root { color-scheme: light; font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
body { margin: 0 auto; max-width: 78rem; padding: 1.5rem 1.25rem 4rem; color: #1c2430; background: #fff; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.3rem; margin: 3rem 0 .2rem; padding-top: 1rem; border-top: 2px solid #33404f; }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem; } p { margin: .2rem 0; color: #46505e; } a { color: #00568a; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #dde2e9; vertical-align: top; }
th { background: #f3f5f8; font-weight: 600; white-space: nowrap; } tbody th { background: none; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } .t { white-space: nowrap; font-variant-numeric: tabular-nums; }
td code { display: inline-block; min-width: 7rem; }
code { font: .9em ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.mark { display: inline-block; padding: 0 .5rem; border-radius: .6rem; font-weight: 600; white-space: nowrap; background: #e9edf2; color: #33404f; }
.done, .passed { background: #d9f2e0; color: #11512a; } .failed, .error { background: #fbdcdc; color: #7d1616; }
.interrupted, .quarantined { background: #fdeec7; color: #6a4700; } .broken { background: #3a1220; color: #ffe3ea; }
.accepted { background: #dde7fb; color: #1d3d80; } .why { color: #7d1616; }
.drawings { display: grid; grid-template-columns: repeat(auto-fill, minmax(26rem, 1fr)); gap: .5rem 2rem; }
figure { margin: .6rem 0; } figcaption { font-weight: 600; font-size: .95rem; } figcaption span { font-weight: 400; color: #46505e; }
.wide svg { min-width: 44rem; } svg { width: 100%; height: auto; max-height: 32rem; } svg * { stroke-linejoin: round; }
@media (max-width: 30rem) { .drawings { grid-template-columns: 1fr; } }
@media print { h2 { break-before: page; } }
"""


def write(path: str, shown: Overview) -> None:
    """Write the page to a file of this machine, as a whole.

    Raises:
        InvalidRequest: it cannot be written there.
    """
    try:
        report_files.write(path, page(shown))
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror or error}.") from error


def page(shown: Overview) -> str:
    """The page: a table of all topics, then each topic with its drawings and tables."""
    where = _text(Path(shown.root).name if "/" in shown.root else shown.root)
    body = "".join(_topic(one, shown.at) for one in shown.topics) or "<p>There are no topics.</p>"
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>lakelog: {where}</title><style>{STYLE}</style></head>'
        f"<body><header><h1>lakelog: {where}</h1><p><code>{_text(shown.root)}</code> · as of {_time(shown.at)} UTC · all times are UTC</p></header>"
        f"<main>{_summary(shown)}{body}</main></body></html>\n"
    )


def _summary(shown: Overview) -> str:
    head = (
        "topic",
        "last run",
        "records",
        "keys",
        "live",
        "tombstones",
        "unmerged",
        "waiting",
        "log",
        "dirty",
        "last verdict",
    )
    return _table(head, [_line(one, shown.at) for one in shown.topics], numbers=range(2, 10), times=(1,))


def _line(one: TopicView, at: datetime.datetime) -> list[str]:
    name = f"<a href='#{_text(one.name)}'>{_text(one.name)}</a>"
    last = one.runs[0] if one.runs else None
    ran = "-" if last is None else f"{_mark(str(last['outcome']))} {_ago(at - growth.ended(last))} ago"
    if one.status is None:
        error = "UNKNOWN" if one.error is None else one.error.name
        return [name, ran, _mark("error", error), *[""] * 8]
    said, cleaning = one.status, one.status.cleaning
    verdict = "-" if said.last_verdict is None else _mark(str(said.last_verdict["outcome"]))
    waiting = "-" if said.unmerged_age_ms is None else _ago(datetime.timedelta(milliseconds=said.unmerged_age_ms))
    due = "" if cleaning is None or not cleaning.tombstones_due else f" ({cleaning.tombstones_due:,} due)"
    figures = [f"{said.records:,}", f"{said.keys:,}", f"{said.live:,}", f"{said.tombstones:,}{due}", f"{said.unmerged_records:,}"]
    log = ["", ""] if cleaning is None else [octets(cleaning.log_bytes), f"{cleaning.dirty_ratio:.0%}"]
    return [name, ran, *figures, waiting, *log, verdict]


def _topic(one: TopicView, at: datetime.datetime) -> str:
    """A topic: what is said of it, its drawings, its tables."""
    parts = [f"<section id='{_text(one.name)}'><h2>{_text(one.name)}</h2>"]
    if one.error is not None:
        parts.append(f"<p class='why'><b>{_text(one.error.name)}</b>: {_text(str(one.error))}</p>")
    parts += [f"<p class='why'>Not shown: {_text(text)}</p>" for text in one.unread]
    parts += [f"<p>{text}</p>" for text in _facts(one)]
    parts.append(f"<div class='drawings'>{''.join(_drawings(one))}</div>")
    parts += [_snapshots(one, at), _runs(one), _partitions(one), _readers(one, at), _verdicts(one), "</section>"]
    return "".join(parts)


def _facts(one: TopicView) -> list[str]:
    said = one.status
    if said is None:
        return []
    facts = [f"rule <code>{_text(said.rule)}</code> · bronze v{said.bronze_version} · silver v{said.silver_version} · epoch {said.epoch}"]
    if said.intent is not None:
        facts.append(
            f"<span class='why'>The operation {_text(said.intent)} was begun and is not finished; the next command that writes does.</span>"
        )
    cleaning = said.cleaning
    if cleaning is not None:
        told = [f"log {octets(cleaning.log_bytes)}", *([cleaning.to_clean] if cleaning.to_clean else [])]
        told += [f"overdue for {_ago(datetime.timedelta(milliseconds=cleaning.overdue_ms))}"] * bool(cleaning.overdue_ms)
        told += [f"{cleaning.tombstones_due:,} tombstones due"] * bool(cleaning.tombstones_due)
        if cleaning.cleaned_age_ms is not None:
            size = "" if cleaning.bytes_before is None else f": {octets(cleaning.bytes_before)} → {octets(cleaning.bytes_after or 0)}"
            told.append(f"last clean {_ago(datetime.timedelta(milliseconds=cleaning.cleaned_age_ms))} ago{size}")
        facts.append("Cleaner: " + ", ".join(told))
    return facts


def _drawings(one: TopicView) -> list[str]:
    """The drawings that there is something for."""
    runs, name = one.oldest_first, one.name
    whole, share = charts.whole, charts.share
    tables = {table: points for table, points in one.growth.items() if points}
    drawn = [
        ("Lag", "offsets not merged yet, before and after each run", {"lag": growth.waiting(runs)}, whole, None),
        ("Log end", "the sum of the log end offsets after each run", {"log end": growth.log_end(runs)}, whole, None),
        ("Tables", "the size of the files that make up each table, after each commit", tables, octets, None),
        ("Log", "the size of keys, values and headers, after each run", {"log": growth.log_octets(runs)}, octets, None),
        ("Dirty ratio", "of the dirtiest partition, as each run found it", {"dirty": growth.dirty_ratio(runs)}, share, 1.0),
    ]
    found = [
        _figure(title, says, charts.lines(series, says=f"{name}, {title}: {says}", told=told, most=most))
        for title, says, series, told, most in drawn
        if any(series.values())
    ]
    last = [(growth.started(run), _seconds(run), run["outcome"] == "done") for run in runs[-BARS:]]
    if last:
        says = f"seconds by step, the last {len(last)}"
        found.append(_figure("Runs", says, charts.bars(last, says=f"{name}, runs: {says}")))
    return found


def _seconds(run: Mapping[str, Any]) -> dict[str, float]:
    steps = {str(step["step"]): float(step["seconds"]) for step in run["steps"]}
    return {**steps, charts.AROUND: max(float(run["seconds"]) - sum(steps.values()), 0.0)}


def _snapshots(one: TopicView, at: datetime.datetime) -> str:
    if not one.snapshots:
        return ""
    newest = one.snapshots[-ROWS:]
    text = f"{one.name}: its snapshots on a time line, each for as long as it lives"
    drawn = charts.lives([(each.name, each.created, each.until, each.kept) for each in newest], at, says=text)
    rows = [
        [
            f"<b>{_text(each.name)}</b>", f"<code>{_text(each.id)}</code>", f"v{each.version}" if each.form == "version" else "own table",
            _time(each.created), "for ever" if each.until is None else _time(each.until),
            "named, kept until then" if each.kept else "by retention", _text(each.note) or "-",
        ]
        for each in reversed(newest)
    ]  # fmt: skip
    shown = "solid: kept by name; hatched: as long as retention leaves it; an arrow: longer than drawn"
    head = ("name", "id", "silver", "taken", "lives until", "why", "note")
    timeline = f"<div class='wide'>{_figure('', shown, drawn)}</div>"
    return f"<h3>Snapshots</h3>{timeline}{_table(head, rows, times=(3, 4))}{_left(len(one.snapshots), len(newest), 'snapshots')}"


def _runs(one: TopicView) -> str:
    if not one.runs:
        return "<h3>Runs</h3><p>No run of <code>lakelog run</code> yet.</p>"
    rows = []
    for run in one.runs[:ROWS]:
        counts, error = run.get("counts") or {}, run.get("error")
        steps = " · ".join(_step(step) for step in run["steps"])
        why = (
            ""
            if not isinstance(error, dict)
            else f"<br><span class='why'>{_text(str(error.get('error')))}: {_text(str(error.get('message')))}</span>"
        )
        figures = [f"{int(counts.get(kind, 0)):,}" for kind in ("files", "appended", "merged", "removed")]
        rows.append([_time(growth.started(run)), f"{float(run['seconds']):.1f} s", _mark(str(run["outcome"])), _text(str(run["exit_code"])),
                     *figures, f"{steps or '-'}{why}"])  # fmt: skip
    head = ("started", "took", "outcome", "exit", "files", "appended", "merged", "removed", "steps")
    return f"<h3>Runs</h3>{_table(head, rows, numbers=(1, 3, 4, 5, 6, 7), times=(0,))}{_left(len(one.runs), len(rows), 'runs')}"


def _step(step: Mapping[str, Any]) -> str:
    """A step: its outcome is told where it is not the usual one."""
    outcome = "" if step["outcome"] == "done" else f" <i>{_text(str(step['outcome']))}</i>"
    return f"<span class='t'>{_text(str(step['step']))}{outcome} {float(step['seconds']):.1f} s</span>"


def _partitions(one: TopicView) -> str:
    if one.status is None:
        return ""
    rows = [
        [str(each.partition), f"{each.log_start_offset:,}", f"{each.merged_offset:,}", f"{each.log_end_offset:,}",
         f"{each.log_end_offset - each.merged_offset:,}", f"{each.active_segment:,}", octets(each.segment_bytes)]
        for each in one.status.partitions
    ]  # fmt: skip
    head = ("partition", "log start", "merged up to", "log end", "unmerged", "active segment", "its size")
    return f"<h3>Partitions</h3>{_table(head, rows, numbers=range(7))}"


def _readers(one: TopicView, at: datetime.datetime) -> str:
    if not one.readers:
        return ""
    rows = [
        [
            _text(each.group),
            f"{each.behind:,}",
            _time(each.committed),
            f"{_ago(at - each.committed)} ago",
            "yes" if each.holds else "no longer",
        ]
        for each in one.readers
    ]
    return f"<h3>Readers</h3>{_table(('group', 'offsets behind', 'committed', '', 'holds the log'), rows, numbers=(1,), times=(2,))}"


def _verdicts(one: TopicView) -> str:
    if not one.verdicts:
        return ""
    rows = [
        [_time(growth.moment(int(each["ms"]))), _text(str(each["door"])), _mark(str(each["outcome"])),
         "-" if each["version"] is None else f"v{each['version']}", f"{each['passed']:,}", f"{each['critical']:,}", f"{each['warnings']:,}",
         f"<code>{_text(str(each['run'])[:12])}</code>"]
        for each in one.verdicts[:ROWS]
    ]  # fmt: skip
    head = ("time", "door", "outcome", "silver", "rules passed", "critical not passed", "warnings", "run")
    return f"<h3>Quality verdicts</h3>{_table(head, rows, numbers=(4, 5, 6), times=(0,))}"


# ---- pieces ----


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Iterable[int] = (), times: Iterable[int] = ()) -> str:
    kinds = {**dict.fromkeys(numbers, " class='n'"), **dict.fromkeys(times, " class='t'")}
    top = "".join(f"<th scope='col'{kinds.get(place, '')}>{name}</th>" for place, name in enumerate(head))
    body = "".join("<tr>" + "".join(f"<td{kinds.get(place, '')}>{cell}</td>" for place, cell in enumerate(row)) + "</tr>" for row in rows)
    return f"<div class='wide'><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def _figure(title: str, says: str, drawn: str) -> str:
    return f"<figure><figcaption>{title} <span>{says}</span></figcaption>{drawn}</figure>"


def _left(all_: int, shown: int, what: str) -> str:
    return f"<p>The newest {shown} of {all_} {what}.</p>" if all_ > shown else ""


def _mark(word: str, told: str | None = None) -> str:
    return f"<span class='mark {_text(word)}'>{_text(told or word)}</span>"


def _time(at: datetime.datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _ago(age: datetime.timedelta) -> str:
    seconds = int(age.total_seconds())
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{max(seconds, 0)} s"


def _text(value: str) -> str:
    return html.escape(value, quote=True)
