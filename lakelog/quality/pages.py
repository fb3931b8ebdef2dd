"""Verdicts as one HTML page: everything is in the file, so it opens from disk and without the network."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lakelog.errors import InvalidRequest
from lakelog.quality_results import Finding, Verdict

STYLE = """
:root { color-scheme: light; font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1c2430; background: #fff; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .3rem; }
p { margin: .2rem 0; color: #46505e; } table { border-collapse: collapse; width: 100%; margin: .6rem 0; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #dde2e9; vertical-align: top; }
th { background: #f3f5f8; font-weight: 600; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
code { font: .9em ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.mark { display: inline-block; padding: 0 .5rem; border-radius: .6rem; font-weight: 600; white-space: nowrap; }
.passed { background: #d9f2e0; color: #11512a; } .failed { background: #fbdcdc; color: #7d1616; } .broken { background: #3a1220; color: #ffe3ea; }
.quarantined { background: #fdeec7; color: #6a4700; } .accepted { background: #dde7fb; color: #1d3d80; }
.critical { border: 1px solid #7d1616; color: #7d1616; } .warning { border: 1px solid #8a6100; color: #8a6100; }
.info { border: 1px solid #46505e; color: #46505e; }
"""
# Nothing is fetched and nothing runs, whatever the texts of others hold.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(topic: str, verdicts: Sequence[Verdict]) -> str:
    """The page of a topic: a line a run, newest first, then each run rule by rule."""
    runs = "".join(
        f"<tr><td><a href='#{_text(one.run)}'><code>{_text(one.run[:12])}</code></a></td><td>{one.at:%Y-%m-%d %H:%M:%S}</td><td>{_text(one.door)}</td>"
        f"<td>{_mark(one.outcome)}</td><td class='n'>{_number(one.version)}</td><td class='n'>{_number(one.records)}</td>"
        f"<td class='n'>{_number(one.quarantined)}</td><td class='n'>{_count(one, 'critical')}</td>"
        f"<td class='n'>{_count(one, 'warning', 'info')}</td></tr>"
        for one in verdicts
    )
    head = _head("run", "time (UTC)", "door", "outcome", "version", "rows", "quarantined", "critical not passed", "warnings")
    body = "".join(_run(one) for one in verdicts) or "<p>There are no verdicts yet.</p>"
    title = f"Verdicts of {_text(topic)}"
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>{title}</title><style>{STYLE}</style></head><body>'
        f"<h1>{title}</h1><p>{len(verdicts)} runs, newest first. A rule that could not be evaluated is <b>broken</b>: nobody knows whether"
        f" it holds.</p>"
        f"<table><thead>{head}</thead><tbody>{runs}</tbody></table>{body}</body></html>\n"
    )


def _run(one: Verdict) -> str:
    """A run rule by rule, what did not pass first."""
    order = {"broken": 0, "failed": 1, "quarantined": 2, "accepted": 3, "passed": 4}
    severity = {"critical": 0, "warning": 1, "info": 2}
    findings = sorted(one.findings, key=lambda found: (order.get(found.outcome, 9), severity.get(found.severity, 9), found.rule))
    rows = "".join(_rule(found) for found in findings)
    facts = [f"door {_text(one.door)}", f"{one.at:%Y-%m-%d %H:%M:%S} UTC", f"suite <code>{_text(one.suite[:12])}</code>"]
    facts += [f"version {one.version}"] * (one.version is not None)
    facts += [f"accepted run <code>{_text((one.accepts or '')[:12])}</code>: {_text(one.reason or '')}"] * (one.accepts is not None)
    head = _head("outcome", "severity", "rule", "what holds", "observed", "checked", "failing")
    return (
        f"<h2 id='{_text(one.run)}'>{_mark(one.outcome)} <code>{_text(one.run)}</code></h2><p>{' · '.join(facts)}</p>"
        f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"
    )


def _rule(found: Finding) -> str:
    keys = f"<br>keys: <code>{_text(', '.join(found.keys))}</code>" if found.keys else ""
    return (
        f"<tr><td>{_mark(found.outcome)}</td><td>{_mark(found.severity)}</td><td><b>{_text(found.rule)}</b><br><code>{_name(found.type)}</code></td>"
        f"<td>{_text(found.description)}</td><td>{_text(found.observed)}{keys}</td><td class='n'>{_number(found.checked)}</td>"
        f"<td class='n'>{_number(found.failing)}</td></tr>"
    )


def _count(one: Verdict, *severities: str) -> int:
    return sum(1 for found in one.findings if found.outcome != "passed" and found.severity in severities)


def _head(*names: str) -> str:
    return f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>"


def _mark(word: str) -> str:
    return f"<span class='mark {_text(word)}'>{_text(word)}</span>"


def _number(value: Any) -> str:
    return "" if value is None else f"{value:,}"


def _name(value: str) -> str:
    """A long name, which may be parted behind its underscores."""
    return _text(value).replace("_", "_<wbr>")


def _text(value: str) -> str:
    return html.escape(value, quote=True)


def write(path: str, topic: str, verdicts: Sequence[Verdict]) -> None:
    """Write the page to a file of this machine.

    Raises:
        InvalidRequest: it cannot be written there.
    """
    try:
        Path(path).write_text(page(topic, verdicts), encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}.") from error
