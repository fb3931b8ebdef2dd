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

from lakelog import Refused
from tests.conftest import Clock
from tests.latest.test_git_history import TYPES, _history, _trees
from tests.quality.folders import rows, stock, write

if TYPE_CHECKING:
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


def damaged(records: list[Record], chance: random.Random) -> tuple[list[Record], dict[int, set[str]]]:
    """A history with one record in a hundred damaged, the ways in turn, and which (line to the rules it breaks).

    Records that share key and time with another are left out: which of them is the latest depends on the order of arrival by definition.
    """
    times = Counter((record["key"], record["timestamp"]) for record in records)
    alone = [line for line, record in enumerate(records) if times[record["key"], record["timestamp"]] == 1]
    live = [line for line in alone if not records[line]["tombstone"]]
    dead = [line for line in alone if records[line]["tombstone"]]
    count = max(len(records) // 100, 2 * len(DAMAGES))
    chosen = chance.sample(live, count)
    deletes = chance.sample(dead, min(len(dead), count // len(DAMAGES)))
    found, wrong = list(records), dict[int, set[str]]()
    for number, line in enumerate(chosen):
        way = number % len(DAMAGES)
        if way == OF_TOMBSTONES:
            if not deletes:
                continue
            line = deletes.pop()
        change, rules = DAMAGES[way]
        found[line] = copy.deepcopy(records[line])
        change(found[line])
        wrong[line] = rules
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


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["offset", "timestamp", "header"])
@pytest.mark.parametrize("repository", ["requests", "kafka"])
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
    assert {begin[row["time"]] + row["record"]: set(row["rules"]) for row in aside} == wrong
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


def tree(records: list[Record], strategy: str) -> dict[str, str]:
    """The live files of a history by plain Python."""
    best: dict[str, tuple[Any, Record]] = {}
    for place, record in enumerate(records):
        rank = (record["timestamp"] if strategy == "timestamp" else record["headers"][-1][1] if strategy == "header" else 0, place)
        if record["key"] not in best or rank >= best[record["key"]][0]:
            best[record["key"]] = (rank, record)
    return {key: record["value"]["blob"] for key, (_, record) in best.items() if not record["tombstone"]}
