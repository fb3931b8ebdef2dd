"""The table of verdicts as anyone reads it, what an empty batch comes to, and expectations about types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import GateFailed
from tests.conftest import Clock
from tests.quality.folders import figure, rows, stock, write
from tests.tables import versions

if TYPE_CHECKING:
    from lakelog import Lake, Topic

COLUMNS = [
    "run", "uuid", "topic", "door", "version", "rule", "type", "severity", "outcome", "observed", "description", "checked", "failing", "keys",
    "suite", "at", "details",
]  # fmt: skip
RULES = [
    rows("positive", "_tombstone OR value > 0"), rows("usual", "_tombstone OR value < 100", "warning"),
    figure("few", "records", max_value=3), stock("expect_column_max_to_be_between", "warning", column="value", max_value=1000),
]  # fmt: skip


def gated(lake: Lake, folder: Path, *append: dict[str, Any], **config: Any) -> Topic:
    return lake.create_topic(
        "t", key="STRING", value="INT", config={"quality.suites": write(folder / "suites", "t", append=[*append]), **config}
    )


def some(**values: int) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def test_the_table_has_a_row_for_each_rule_and_one_for_the_verdict(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    topic = gated(lake, tmp_path, *RULES, **{"quality.on.failure": "quarantine"})
    done = topic.append(some(a=1, b=-2, c=200, d=4))
    table = lake.spark.read.format("delta").load(f"{lake.root}/_lakelog/verdicts")
    assert table.columns == COLUMNS
    found = {row["rule"]: row.asDict() for row in table.collect()}
    assert len(found) == table.count()
    most = "column_max_to_be_between(value)"
    assert {rule: (row["type"], row["severity"], row["outcome"], row["observed"], row["checked"], row["failing"]) for rule, row in found.items()} == {
        None: (None, None, "quarantined", None, 4, None),
        "header_names": ("expect_rows_to_satisfy", "warning", "passed", "", 4, 0),
        "timestamp_plausible": ("expect_rows_to_satisfy", "warning", "passed", "", 4, 0),
        "positive": ("expect_rows_to_satisfy", "critical", "quarantined", "1 of 4 break it", 4, 1),
        "usual": ("expect_rows_to_satisfy", "warning", "failed", "1 of 4 break it", 4, 1),
        "few": ("expect_figure_to_be_between", "critical", "passed", "records is 3", None, None),
        most: ("expect_column_max_to_be_between", "warning", "passed", "200", None, None),
    }  # fmt: skip
    for row in found.values():
        assert (row["run"], row["uuid"], row["topic"], row["door"]) == (done.run, topic.log.uuid, "t", "append")
        assert (row["version"], row["at"].timestamp()) == (done.version, clock.now / 1000)
    said = json.loads(found[None]["details"])
    assert (said["records"], said["quarantined"]) == (4, 1)
    assert {row["description"] for rule, row in found.items() if rule in ("positive", "usual")} == {"positive", "usual"}


@pytest.mark.long
def test_the_digest_of_a_suite_is_that_of_its_files(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """Equal while the files are, wherever they lie; another one after an edit of the topic's or of the default suite, then undone."""
    topic, digests = gated(lake, tmp_path, RULES[0]), list[str]()

    def digest() -> str:
        clock.tick(1)
        run = topic.append(some(a=1)).run
        found = topic.verdicts(limit=1)[0]
        assert found.run == run
        return found.suite

    digests.append(digest())
    write(tmp_path / "suites", "t", append=[RULES[0]])
    assert digest() == digests[0]
    topic.configure({"quality.suites": write(tmp_path / "moved", "t", append=[RULES[0]])})
    assert digest() == digests[0]
    write(tmp_path / "moved", "t", append=[{**RULES[0], "description": "another sentence"}])
    digests.append(digest())
    write(tmp_path / "moved", "t", append=[RULES[0]])
    assert digest() == digests[0]
    write(tmp_path / "moved", "default", append=[rows("common", "true")])
    digests.append(digest())
    assert len(set(digests)) == 3 and all(len(one) == 64 for one in digests)


@pytest.mark.long
def test_of_no_records_every_rule_about_rows_holds_and_of_a_column_there_is_no_maximum(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """Nothing is written of an empty batch but its verdict. A stock expectation about a column that has no values fails, as Great Expectations says."""
    topic = gated(lake, tmp_path, RULES[0], stock("expect_column_values_to_not_be_null", column="value", mostly=0.9))
    topic.append(some(a=1))
    before = versions(lake.root, "t")
    clock.tick(1)
    done = topic.append([])
    assert (done.records, done.offsets, done.quarantined, done.warnings) == (0, {}, 0, {})
    verdict = topic.verdicts(limit=1)[0]
    assert (verdict.run, verdict.outcome, verdict.records) == (done.run, "passed", 0)
    assert {one.rule: (one.outcome, one.checked) for one in verdict.findings}["positive"] == ("passed", 0)
    write(tmp_path / "suites", "t", append=[stock("expect_column_max_to_be_between", column="value", max_value=9)])
    for batch in ([], [{"key": "a", "tombstone": True}]):
        with pytest.raises(GateFailed) as error:
            topic.append(batch)
        assert (error.value.name, error.value.details["rules"]) == ("GATE_FAILED", ["column_max_to_be_between(value)"])
        assert "column_max_to_be_between(value) (there is no value to look at) failed" in str(error.value)
    assert versions(lake.root, "t") == before


@pytest.mark.long
def test_an_expectation_about_a_type_is_about_the_batch_as_a_whole(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """Types are the topic's: no record alone can break it, none is put aside for it, and where it fails every batch is refused."""
    of_type = "expect_column_values_to_be_of_type"
    topic = gated(lake, tmp_path, stock(of_type, column="value", type_="IntegerType"), **{"quality.on.failure": "quarantine"})
    assert topic.append(some(a=1)).records == 1
    name = "column_values_to_be_of_type(value)"
    assert {one.rule: (one.outcome, one.observed) for one in topic.verdicts()[0].findings}[name] == ("passed", "IntegerType")
    before = versions(lake.root, "t")
    for kind in ("StringType", "LongType"):
        write(tmp_path / "suites", "t", append=[stock(of_type, column="value", type_=kind)])
        clock.tick(1)
        with pytest.raises(GateFailed) as error:
            topic.append(some(a=1))
        assert (error.value.name, error.value.exit_code, error.value.details["rules"]) == ("GATE_FAILED", 3, [name])
        assert "of which no record can be put aside" in str(error.value)
    assert (versions(lake.root, "t"), topic.quarantined().count()) == (before, 0)
