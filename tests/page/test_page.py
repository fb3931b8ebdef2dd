"""The status page: one file that fetches nothing and runs nothing, whatever names, notes and reports hold; growth counted from commits."""

from __future__ import annotations

import datetime
import html.parser
import re
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import Damaged, InvalidRequest
from lakelog.page import charts, growth, page
from lakelog.page.overview import Overview, Reader, SnapshotLife, TopicView
from lakelog.page.table_reader import Commit
from lakelog.quality import pages
from lakelog.quality_results import Finding, Verdict
from lakelog.status_results import CleaningStatus, PartitionStatus, TopicStatus

UTC = datetime.timezone.utc
NOON = datetime.datetime(2026, 5, 6, 12, tzinfo=UTC)
HOSTILE = "</title><script src=//evil>alert('1')</script><img src=x onerror=alert(2)>\"'&${x}"


def day(number: int) -> datetime.datetime:
    return NOON + datetime.timedelta(days=number)


def report(number: int, outcome: str = "done", **more: Any) -> dict[str, Any]:
    """A run's report as it is read back."""
    clean = {"step": "clean", "outcome": outcome, "seconds": 2.5, "report": {"partitions": [{"dirty_ratio": 0.25}, {"dirty_ratio": 0.5}]}}
    return {
        "started_at": day(number).isoformat(), "ended_at": (day(number) + datetime.timedelta(seconds=9)).isoformat(), "seconds": 9.0,
        "outcome": outcome, "exit_code": 0 if outcome == "done" else 4, "counts": {"files": 1, "appended": 10}, "octets": {"log": 1000 * number},
        "before": {"ends": {"0": 10 * number, "1": 5}, "merged": {"0": 10 * number, "1": 5}},
        "after": {"ends": {"0": 10 * number + 10, "1": 5}, "merged": {"0": 10 * number, "1": 5}}, "steps": [clean], "error": None, **more,
    }  # fmt: skip


def shown(**changes: Any) -> Overview:
    """A lake of a topic that tells all, with hostile words wherever words of others come in, and of one that is damaged."""
    status = TopicStatus(
        "orders", HOSTILE, 20, 12, 10, 2, 3, 90_000, 7, 4, 0, [PartitionStatus(0, 0, 20, 17, 0, 4096)], {}, HOSTILE,
        {"outcome": HOSTILE}, 3, CleaningStatus(123_456, 0.4, 60_000, 2, 3_600_000, 2_000_000, 1_000),
    )  # fmt: skip
    error = {"error": HOSTILE, "message": HOSTILE}
    runs = [report(3, HOSTILE, error=error, exit_code=HOSTILE), report(2), report(1)]
    runs[1]["steps"][0]["step"] = HOSTILE
    orders = TopicView(
        "orders", status, None, runs,
        [
            SnapshotLife(HOSTILE, "0@1", 1, day(0), None, True, "version", False, HOSTILE),
            SnapshotLife("0@20", "0@20", 2, day(1), day(12), False, "version", True, ""),
        ],
        [{"ms": 1_770_000_000_000, "door": HOSTILE, "outcome": HOSTILE, "version": None, "run": HOSTILE, "passed": 1, "critical": 0, "warnings": 2}],
        [Reader(HOSTILE, 5, day(1), False)], {"bronze": [(day(1), 10.0), (day(2), 2e6)], "silver": []}, [HOSTILE],
    )  # fmt: skip
    return Overview(f"/data/{HOSTILE}", day(4), [orders, TopicView("broken", error=Damaged(HOSTILE)), *changes.get("more", [])])


class Looked(html.parser.HTMLParser):
    """What a browser would do with the page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def looked_at(text: str) -> Looked:
    """A page that fetches nothing and runs nothing, and whose elements are closed and known apart."""
    looked = Looked()
    looked.feed(text)
    assert looked.open == []
    tags = {tag for tag, _ in looked.found}
    assert not tags & {"script", "img", "link", "iframe", "object", "foreignobject", "image"}
    for tag, attributes in looked.found:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "xlink:href", "src"):
                assert (value or "").startswith("#"), (tag, value)
    assert {"http-equiv": "Content-Security-Policy", "content": "default-src 'none'; style-src 'unsafe-inline'"} in [
        one for _, one in looked.found
    ]
    ids = [attributes["id"] for _, attributes in looked.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    return looked


def test_the_page_fetches_nothing_and_runs_nothing() -> None:
    text = page.page(shown())
    looked = looked_at(text)
    said = " ".join(looked.words)
    assert said.count("<script src=//evil>") > 10
    for words in ("overdue for 60 s", "2 tombstones due", "2 MB → 1 kB", "for ever", "by retention", "no longer", "DAMAGED", "90 s"):
        assert words in said, words
    for table in re.findall(r"<table>.*?</table>", text, re.DOTALL):
        assert {row.count("<td") + row.count("<th ") for row in table.split("<tr>")[1:]} == {table.count("<th ")}, table
    drawings = [attributes for tag, attributes in looked.found if tag == "svg"]
    assert len(drawings) == 7 and all(one["role"] == "img" and (one["aria-label"] or "").startswith("orders") for one in drawings)
    assert page.page(shown()) == text, "the same lake gives the same page"
    assert len(text) < 250_000


def test_the_page_of_verdicts_fetches_nothing_and_runs_nothing() -> None:
    """Whatever rules, records and reasons are called."""
    found = [
        Finding(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, 9, 5, [HOSTILE, "k"]),
        Finding("fine", "expect_rows_to_satisfy", "critical", "passed", "it holds", "", 9, 0),
    ]
    verdicts = [
        Verdict(f"{HOSTILE}{index}", HOSTILE, HOSTILE, HOSTILE, found, HOSTILE, day(index), 3, 9, reason=HOSTILE, accepts=HOSTILE)
        for index in range(2)
    ]
    text = pages.page(HOSTILE, verdicts)
    looked = looked_at(text)
    said = " ".join(looked.words)
    # Per run: its line's door and outcome; outcome, run, door and reason of its heading; its rule's outcome, severity, name, type, description,
    # observation and key. And the title, twice.
    assert said.count("<script src=//evil>") == 2 * 13 + 2
    assert [value for tag, one in looked.found for name, value in one.items() if tag == "a" and name == "href"] == [
        f"#{one.run}" for one in verdicts
    ]
    for table in re.findall(r"<table>.*?</table>", text, re.DOTALL):
        assert {row.count("<td") + row.count("<th>") for row in table.split("<tr>")[1:]} == {table.count("<th>")}, table
    assert "There are no verdicts yet." in looked_at(pages.page("orders", [])).words


def test_a_lake_without_topics_and_a_topic_without_runs(tmp_path: Path) -> None:
    assert "There are no topics" in page.page(Overview("main.sales", NOON, []))
    page.write(str(tmp_path / "s.html"), Overview("main.sales", NOON, [TopicView("new")]))
    assert "No run of" in (tmp_path / "s.html").read_text()
    with pytest.raises(InvalidRequest, match="cannot be written"):
        page.write(str(tmp_path / "nowhere" / "s.html"), Overview("main.sales", NOON, []))


def test_series_of_runs() -> None:
    runs = [report(1), report(2), {**report(3), "after": {}, "octets": {}, "steps": []}]
    nine = datetime.timedelta(seconds=9)
    assert growth.waiting(runs) == [(day(1), 0), (day(1) + nine, 10), (day(2), 0), (day(2) + nine, 10), (day(3), 0)]
    assert growth.log_end(runs) == [(day(1) + nine, 25.0), (day(2) + nine, 35.0)]
    assert growth.log_octets(runs) == [(day(1) + nine, 1000.0), (day(2) + nine, 2000.0)]
    assert growth.dirty_ratio(runs) == [(day(1), 0.5), (day(2), 0.5)]


def test_sizes_are_counted_back_from_now() -> None:
    def commit(version: int, operation: str, **metrics: int) -> Commit:
        return Commit(version, 1000 * version, operation, {name: str(number) for name, number in metrics.items()})

    commits = [
        commit(6, "OPTIMIZE", numAddedBytes=50, numRemovedBytes=90),
        commit(5, "SET TBLPROPERTIES"),
        commit(4, "RESTORE", restoredFilesSize=40, removedFilesSize=10, tableSizeAfterRestore=100),
        commit(3, "MERGE", numTargetBytesAdded=30, numTargetBytesRemoved=20, numTargetRowsInserted=4),
        commit(2, "WRITE", numOutputBytes=60),
        commit(1, "MYSTERY"),
        commit(0, "CREATE TABLE"),
    ]
    found = [(int(at.timestamp()), octets) for at, octets in growth.sizes(commits, 60)]
    assert found == [(1, 0), (2, 60), (3, 70), (4, 100), (5, 100), (6, 60)]


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (12_345, "12.3 kB"), (999_949, "1000 kB"), (2_500_000, "2.5 MB"), (3e15, "3 PB")],
)
def test_sizes_for_people(number: float, told: str) -> None:
    assert charts.octets(number) == told


def test_a_long_keep_does_not_squeeze_the_others() -> None:
    rows = [("a", day(0), None, True), ("b", day(1), day(4000), True), ("c", day(2), day(5), False)]
    drawn = charts.lives(rows, day(3), says="x")
    assert re.findall(r">([^<\s][^<]*)</text>", drawn).count("now") == 1 and "2037" not in drawn
