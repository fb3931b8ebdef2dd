"""Where suites lie: the folder that ``quality.suites`` names, and lakelog's own default suites, which come with it."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from lakelog.delta.filesystem import file_texts
from lakelog.errors import InvalidConfig
from lakelog.model.names import absolute_folder
from lakelog.model.topic_log import TopicLog
from lakelog.quality.suites import DEFAULT, DOORS, Suite, suite


def shipped(door: str) -> tuple[str, str]:
    """lakelog's own suite of a door: (where it lies, its text).

    In the wheel, and in the zip that spark-submit takes, they lie beside this file; in a checkout where people edit them.
    """
    package = resources.files(__package__ or "")
    for folder in (package.joinpath(DEFAULT), Path(str(package)).parent.parent / "expectations" / DEFAULT):
        path = folder.joinpath(f"{door}.json")
        if path.is_file():
            return str(path), path.read_text(encoding="utf-8")
    raise InvalidConfig(f"lakelog's own suite {door}.json is missing: install lakelog anew.")


def gating(log: TopicLog, door: str) -> Suite | None:
    """What a door asks of a topic; None where the topic has no suite for it.

    Raises:
        InvalidConfig: the folder cannot be read, or a file in it is not understood. A gate never disappears because of that.

    Cost: the folder's files are read each time; no Spark job.
    """
    return _suite(log, door, always=False)


def auditing(log: TopicLog) -> Suite:
    """What the audit of the latest table asks: the topic's own suite and the default one; lakelog's own where there is no other."""
    found = _suite(log, "table", always=True)
    assert found is not None
    return found


def _suite(log: TopicLog, door: str, *, always: bool) -> Suite | None:
    folder = log.config.text("quality.suites").strip().rstrip("/")
    own, common = f"{log.name}/{door}.json", f"{DEFAULT}/{door}.json"
    texts = file_texts(folder, [common, own]) if folder else {}
    if texts is None:
        says = f"quality.suites={folder}: there is no such folder. Name the one that holds the suites of {log.name}."
        raise InvalidConfig(says, setting="quality.suites")
    if own not in texts:
        _require_meant(log, folder)
    if own not in texts and not always:
        return None
    files = [(f"{folder}/{common}", texts[common]) if common in texts else shipped(door)]
    # A topic may be called default; then the suites are its own.
    if own in texts and own != common:
        files.append((f"{folder}/{own}", texts[own]))
    return suite(log.name, door, files)


def _require_meant(log: TopicLog, folder: str) -> None:
    """Refuse a relative folder, as topics were once set to, where none of the topic's suites are below the current folder: they lie elsewhere.

    A lake's default does not say which topics have suites.
    """
    setting = next(one for one in log.config.effective() if one.name == "quality.suites")
    place = absolute_folder(folder)
    if not folder or setting.origin != "topic" or os.path.isabs(folder) or place == folder:
        return
    if not file_texts(folder, [f"{log.name}/{door}.json" for door in DOORS]):
        raise InvalidConfig(
            f"quality.suites={folder} is relative, and {place} holds no suites of {log.name}. In the folder that it is relative to, configure it"
            " again: it is then kept as an absolute path.",
            setting="quality.suites",
        )
