"""Real histories with damaged records: each is put aside with exactly its rules, the rest flows, and the true values come back in their place."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import GateFailed, Refused
from tests.conftest import Clock
from tests.latest.test_git_history import TYPES, _history, _trees
from tests.quality.folders import rows, stock, write
from tests.tables import versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakelog import Lake, Topic

Record = dict[str, Any]
RULES = [
    rows("key_form", "NOT startswith(key, '/')"),
    stock("expect_column_values_to_match_regex", column="blob", regex="^([0-9a-f]{40})$"),
    rows("tombstone_empty", "NOT _tombstone OR (blob IS NULL AND mode IS NULL)"),
    rows("headers_once", "size(_headers) = size(array_distinct(transform(_headers, header -> header.key)))"),
    stock("expect_column_values_to_be_in_set", column="mode", value_set=["100644", "100755", "120000", "160000"]),
    stock("expect_column_values_to_not_be_null", column="commit"),
    rows("blob_present", "_tombstone OR blob IS NOT NULL"),
    rows("mode_usual", "mode IS NULL OR mode LIKE '100%'", "warning"),
]
BLOB, MODE = "column_values_to_match_regex(blob)", "column_values_to_be_in_set(mode)"
INVALID, STAMP = "INVALID_RECORD", "INVALID_TIMESTAMP"


def valued(**changes: Any) -> Callable[[Record], None]:
    return lambda record: record["value"].update(changes)


# Ten ways to damage a record, and the rules that it then breaks.
DAMAGES: list[tuple[Callable[[Record], None], set[str]]] = [
    (lambda record: record.update(key=None), {INVALID}),
    (lambda record: record.update(key=f"/{record['key']}"), {"key_form"}),
    (valued(blob="G" * 40), {BLOB}),
    (lambda record: record.update(timestamp=884_541_394_800_000), {STAMP}),
    (valued(blob="0" * 40), {"tombstone_empty"}),
    (lambda record: record["headers"].append(record["headers"][0]), {"headers_once"}),
    (valued(mode="100666"), {MODE}),
    (valued(commit=None), {"column_values_to_not_be_null(commit)"}),
    (valued(blob=40), {INVALID}),
    (valued(blob=None, mode="100777"), {"blob_present", MODE}),
]
OF_TOMBSTONES = 4


def damaged(records: list[Record], chance: random.Random) -> tuple[list[Record], dict[int, int]]:
    """A history with one record in a hundred damaged, the ways in turn, and which (line to the way, of `DAMAGES`).

    Records that share key and time with another are left out: which of them is the latest depends on the order of arrival by definition.
    """
    times = Counter((record["key"], record["timestamp"]) for record in records)
    alone = [line for line, record in enumerate(records) if times[record["key"], record["timestamp"]] == 1]
    live = [line for line in alone if not records[line]["tombstone"]]
    dead = [line for line in alone if records[line]["tombstone"]]
    count = max(len(records) // 100, 2 * len(DAMAGES))
    chosen = chance.sample(live, count)
    deletes = chance.sample(dead, min(len(dead), count // len(DAMAGES)))
    found, wrong = list(records), dict[int, int]()
    for number, line in enumerate(chosen):
        way = number % len(DAMAGES)
        if way == OF_TOMBSTONES:
            if not deletes:
                continue
            line = deletes.pop()
        found[line] = copy.deepcopy(records[line])
        DAMAGES[way][0](found[line])
        wrong[line] = way
    return found, wrong


def appended(topic: Topic, records: list[Record], clock: Clock, folder: Path, steps: int = 3) -> list[int]:
    """Append a history in some files; gives where they begin."""
    size = -(-len(records) // steps)
    starts = list(range(0, len(records), size))
    for start in starts:
        path = folder / f"part-{start}.ndjson"
        path.write_text("".join(json.dumps(record) + "\n" for record in records[start : start + size]), encoding="utf-8")
        clock.tick(1000)
        topic.append(str(path), token=path.name)
    return starts


@pytest.mark.parametrize(
    ("repository", "strategy"),
    [
        *[pytest.param(*one, marks=pytest.mark.long) for one in (("requests", "offset"), ("requests", "timestamp"), ("kafka", "header"))],
        *[pytest.param(*one, marks=pytest.mark.soak) for one in (("requests", "header"), ("kafka", "offset"), ("kafka", "timestamp"))],
    ],
)
def test_a_damaged_history_is_put_aside_and_comes_back_in_its_right_order(
    repository: str, strategy: str, lake: Lake, clock: Clock, tmp_path: Path
) -> None:
    history = _history(repository)
    true = [{**record, "headers": [*record["headers"], ["line", line]]} for line, record in enumerate(history.records)]
    records, wrong = damaged(true, random.Random(20260506))
    config = {"quality.suites": write(tmp_path / "suites", "history", append=RULES), "quality.on.failure": "quarantine"}
    config |= {"compaction.strategy": strategy, "compaction.strategy.header": "line" if strategy == "header" else ""}
    topic = lake.create_topic("history", config=config, **TYPES)
    starts = appended(topic, records, clock, tmp_path)

    by_time = {row["time"]: None for row in topic.quarantined().select("time").distinct().orderBy("time").collect()}
    begin = dict(zip(by_time, starts, strict=True))
    aside = topic.quarantined().select("time", "record", "rules").collect()
    assert {begin[row["time"]] + row["record"]: set(row["rules"]) for row in aside} == {
        line: DAMAGES[way][1] for line, way in wrong.items()
    }
    assert set(wrong.values()) == set(range(10)), "each of the ten ways occurred"
    assert (len(aside), topic.ends()) == (len(wrong), {0: len(records) - len(wrong)})
    topic.merge()
    good = [record for line, record in enumerate(records) if line not in wrong]
    assert _trees(topic)[0] == tree(good, strategy)

    corrected = [true[line] for line in sorted(wrong)]
    if strategy == "offset":
        newest = {record["key"]: line for line, record in enumerate(records) if line not in wrong}
        refused = sorted({true[line]["key"] for line in wrong if newest.get(true[line]["key"], -1) > line})
        with pytest.raises(Refused) as error:
            topic.requeue(corrected=corrected)
        assert (error.value.name, error.value.details["keys"]) == ("WOULD_OVERWRITE", refused)
        assert topic.quarantined().count() == len(wrong)
        assert topic.requeue(corrected=corrected, overwrite=True).overwritten == refused
    else:
        assert topic.requeue(corrected=corrected).records == len(wrong)
    topic.merge()
    assert topic.quarantined().count() == 0
    assert _trees(topic)[0] == tree([*good, *corrected] if strategy == "offset" else true, strategy)
    if strategy == "header":
        assert _trees(topic)[0] == history.points[-1][1], "git's own tree"
    if strategy != "offset":
        plain = lake.create_topic("plain", config={**config, "quality.suites": ""}, **TYPES)
        appended(plain, true, clock, tmp_path)
        plain.merge()
        mine, theirs = held(lake, topic), held(lake, plain)
        assert (mine.count(), mine.exceptAll(theirs).count(), theirs.exceptAll(mine).count()) == (len({one["key"] for one in true}), 0, 0)


def held(lake: Lake, topic: Topic) -> DataFrame:
    """All that a latest table says of each key, of its deletes too, but where in the log it stands."""
    said = "key, commit, blob, mode, _timestamp"
    return lake.sql(f"SELECT {said}, false AS deleted FROM {topic.name} UNION ALL SELECT {said}, true FROM {topic.name}_deleted")


@pytest.mark.long
def test_a_copy_of_a_record_is_a_new_record_and_a_rule_about_the_whole_refuses_it(lake: Lake, clock: Clock, tmp_path: Path) -> None:
    """No rule about single records sees it: the copy flows, and nothing of the latest table changes. Groups that must be unique refuse the batch."""
    records = _history("requests").records[:40]
    twice = [*records[:20], records[7], *records[20:], records[7]]
    config = {"quality.suites": write(tmp_path / "suites", "history", append=RULES), "quality.on.failure": "quarantine"}
    topic = lake.create_topic("history", config=config, **TYPES)
    assert topic.append(twice[:20]).quarantined == 0
    assert topic.append(twice).quarantined == 0
    assert topic.ends() == {0: 62}
    topic.merge()
    expected = tree([*twice[:20], *twice], "offset")
    assert _trees(topic)[0] == expected
    once = {
        "type": "expect_groups_to_be_unique",
        "kwargs": {"name": "once", "columns": ["key", "_timestamp", "commit"]},
        "description": "once",
    }
    write(tmp_path / "suites", "history", append=[*RULES, once])
    before = versions(lake.root, "history")
    with pytest.raises(GateFailed) as error:
        topic.append(twice)
    assert (error.value.details["rules"], error.value.details["keys"]) == (["once"], [records[7]["key"]])
    assert "once (1 groups have several rows: " in str(error.value)
    assert (versions(lake.root, "history"), topic.quarantined().count()) == (before, 0)
    assert topic.append(records).records == 40, "a copy in another batch is beside what the rule sees"


def tree(records: list[Record], strategy: str) -> dict[str, str]:
    """The live files of a history by plain Python."""
    best: dict[str, tuple[Any, Record]] = {}
    for place, record in enumerate(records):
        rank = (record["timestamp"] if strategy == "timestamp" else record["headers"][-1][1] if strategy == "header" else 0, place)
        if record["key"] not in best or rank >= best[record["key"]][0]:
            best[record["key"]] = (rank, record)
    return {key: record["value"]["blob"] for key, (_, record) in best.items() if not record["tombstone"]}
