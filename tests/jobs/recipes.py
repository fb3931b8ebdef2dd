"""What the tests of recipes share: files read, the calls of jobs in a line of shell, and the parser that jobs use."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from lakelog.job.parameters import VERBS, parse

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent.parent
JOBS = ROOT / "jobs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# A run is append, merge, clean and check in one call; the recipes schedule the single verbs, each with an alert of its own.
RECIPES = set(VERBS) - {"run"}
SCHEDULED = RECIPES - {"restore"}
ALERT = "oncall@example.com"
DAY = "2026-05-06"
# Minutes, hours, days, months, days of the week: what cron, Airflow and Kubernetes all take.
CRON = re.compile(r"([\d*,/-]+) ([\d*,/-]+) ([\d*,/-]+) ([\d*,/-]+) ([\d*,/-]+)")
QUARTZ = re.compile(r"[\d,*/-]+ [\d,*/-]+ [\d,*/-]+ [\d,*/?L-]+ [\d,*/A-Z-]+ [\dA-Z,*/?#L-]+( [\d,*/-]+)?")


def documents(path: Path) -> list[Any]:
    return list(YAML(typ="safe", pure=True).load_all(path.read_text(encoding="utf-8")))


def pin(name: str, extra: str) -> str:
    """The lowest version of a requirement of an extra."""
    (found,) = [one for one in PROJECT["project"]["optional-dependencies"][extra] if re.match(rf"{name}\b", one)]
    version = re.search(r">=([\d.]+)", found)
    assert version
    return version[1]


def calls(command: str) -> Iterator[list[str]]:
    """The calls of jobs in a line of shell: the verb and its arguments."""
    words = shlex.split(re.sub(r"\$\(date -u \+%F\)", DAY, command))
    for index, word in enumerate(words):
        if " " in word and "jobs/" in word:
            yield from calls(word)
        elif found := re.fullmatch(r"(?:.*/|\$)?(?:jobs|JOBS)/(\w+)\.py", word):
            rest = words[index + 1 :]
            stop = next((at for at, one in enumerate(rest) if re.match(r">|\d>|\||;|&", one)), len(rest))
            yield [found[1], *rest[:stop]]


def parsed(command: str) -> list[Any]:
    """What the jobs of a command line get, after the real parser; nothing is left to be filled in."""
    found = [parse(call) for call in calls(command)]
    assert found, f"no job is called: {command}"
    for one in found:
        texts = [text for value in vars(one).values() for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
        assert not [text for text in texts if re.search(r"[{}%]|\$\(", text)], f"{texts} of {command}"
        assert "orders" in one.topic
    return found


def takes_all(call: Any) -> bool:
    """Whether a scheduled call leaves nothing out after a night that was missed: a name with today's date in it would."""
    return call.verb != "append" or bool(call.sources and not call.files)
