"""The starting set of suites: what it proposes is understood, says what the table shows, and is kept by the records that it was made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import GateFailed, InvalidConfig, InvalidRequest
from lakelog.quality import profile
from lakelog.quality.folder import shipped
from lakelog.quality.profile import Proposal
from lakelog.quality.suites import DOORS, Suite, suite
from tests.conftest import Answer, Clock
from tests.quality.folders import rows, write

if TYPE_CHECKING:
    from lakelog import Lake

Columns = dict[str, tuple[str, str]]
COLUMNS = {
    "order_id": ("key", "bigint"),
    "sum": ("value", "int"),
    **dict.fromkeys(("status", "blob", "note", "no`te"), ("value", "string")),
}
FOUND = {
    "rows": 100,
    "columns": {
        "order_id": {"nulls": 0, "least": 1.0},
        "status": {"nulls": 0, "short": 3, "long": 7, "distinct": 2, "hex": 100, "texts": ["it's", "new"]},
        "blob": {"nulls": 2, "short": 40, "long": 40, "distinct": 90, "hex": 0},
        "note": {"nulls": 2, "short": 9, "long": 9, "distinct": 90, "hex": 90},
        "no`te": {"nulls": 50, "short": 0, "long": 9, "distinct": 90, "hex": 100},
        "sum": {"nulls": 0, "least": -4.0},
    },
}


def common(**own: list[dict[str, Any]]) -> dict[str, Suite]:
    """The default suites: lakelog's, or a folder's own."""
    texts = {door: json.dumps({"name": door, "expectations": own[door]}) if door in own else shipped(door)[1] for door in DOORS}
    return {door: suite("orders", door, [(f"default/{door}", text)]) for door, text in texts.items()}


def proposed(columns: Columns, found: dict[str, Any], **own: list[dict[str, Any]]) -> Proposal:
    return profile.proposed("orders", columns, found, common(**own))


def loaded(made: Proposal) -> dict[str, Suite]:
    """The proposed suites, each with lakelog's own beside it, as a door reads them."""
    return {door: suite("orders", door, [shipped(door), (door, json.dumps(made.documents[door]))]) for door in DOORS}


def own_rules(made: Proposal, door: str) -> list[str]:
    listed = made.documents[door]["expectations"]
    return [one["kwargs"]["name"] for one in listed if "expression" in one["kwargs"]]


def test_what_is_proposed_is_understood_and_says_what_the_table_shows() -> None:
    made = proposed(COLUMNS, FOUND)
    suites = loaded(made)
    assert {one.name: one.condition for one in suites["append"].row_checks if one.where.startswith("append,")} == {
        "order_id_present": "`order_id` IS NOT NULL",
        "order_id_not_negative": "`order_id` IS NULL OR `order_id` >= 0",
        "status_present": "_tombstone OR `status` IS NOT NULL",
        "status_known": "_tombstone OR `status` IS NULL OR `status` IN ('it\\'s', 'new')",
        "blob_form": "_tombstone OR `blob` IS NULL OR `blob` RLIKE '^[0-9a-f]{40}$'",
        "note_form": "_tombstone OR `note` IS NULL OR length(`note`) = 9",
        "sum_present": "_tombstone OR `sum` IS NOT NULL",
    }
    assert [one.name for one in suites["merge"].checks if not one.condition] == ["few_deletes", "no_drop"]
    assert own_rules(made, "table") == own_rules(made, "append")
    assert made.left_out == []


def test_of_an_empty_table_nothing_is_guessed_beyond_its_types() -> None:
    made = proposed(COLUMNS, {"rows": 0, "columns": {}})
    assert [one["kwargs"]["name"] for one in made.documents["append"]["expectations"]] == ["key_present", "few_quarantined"]
    assert own_rules(made, "table") == ["key_present"]


def test_of_many_columns_the_most_useful_rules_are_written_and_the_others_named() -> None:
    """A door takes 60 rules about rows, lakelog's own two among them; the loader takes what was written."""
    columns: Columns = {f"f{number}": ("value", "int") for number in range(39)} | {"id": ("key", "int")}
    found = {"rows": 9, "columns": dict.fromkeys(columns, {"nulls": 0, "least": 0.0})}
    made = proposed(columns, found)
    for one in ("append", "table"):
        written = own_rules(made, one)
        assert (len(written), len(loaded(made)[one].row_checks)) == (58, 60), one
        assert {f"{name}_present" for name in columns} <= set(written), "a NULL is the commonest damage"
        assert "id_not_negative" in written, "the key's before those of values"
        assert written == sorted(written, key=lambda name: list(columns).index(name.split("_")[0])), "in the order of the columns"
    assert set(made.left_out) == {f"{name}_{what}" for name in columns for what in ("present", "not_negative")} - set(
        own_rules(made, "append")
    )
    assert len(made.left_out) == 80 - 58
    # Beside default suites of one's own there is as much room as they leave, a share of rows counting twice.
    mine = [rows("mine", "true"), {**rows("share", "true"), "type": "expect_column_values_to_be_between"}]
    mine[1]["kwargs"] = {"column": "f1", "min_value": 0, "mostly": 0.5}
    assert len(own_rules(proposed(columns, found, append=mine), "append")) == 57
    with pytest.raises(InvalidConfig, match="at most 60"):
        proposed(columns, found, append=[rows(f"rule_{number}", "true") for number in range(61)])


def test_no_rule_has_the_name_of_one_of_the_default_suites() -> None:
    """Whatever fields are called: ``position`` makes no second position_present."""
    columns: Columns = {"position": ("value", "int"), "rows": ("value", "int"), "id": ("key", "int")}
    found = {"rows": 9, "columns": dict.fromkeys(columns, {"nulls": 0, "least": 0.0})}
    made = proposed(columns, found)
    names = [one.name for one in loaded(made)["table"].row_checks]
    assert set(names) >= {"position_present", "position_present_2", "position_not_negative", "rows_present"}
    assert own_rules(made, "append") == own_rules(made, "table"), "one name for one rule, at every door"
    mine = [rows("id_present", "true"), rows("id_present_2", "true"), rows("few_quarantined", "true")]
    made = proposed(columns, found, append=mine)
    taken = {"name": "d", "expectations": mine}
    names = [one.name for one in suite("orders", "append", [("d", json.dumps(taken)), ("o", json.dumps(made.documents["append"]))]).checks]
    assert names[:3] == ["id_present", "id_present_2", "few_quarantined"]
    assert {"id_present_3", "few_quarantined_2"} <= set(names[3:])


HEX = "0123456789abcdef" * 2


def order(number: int) -> dict[str, Any]:
    value = {
        "rows": number,
        "position": number % 3,
        "status": ("new", "shipped")[number % 2],
        "digest": f"{number:032x}",
        "word": f"a\n{number:02}",
    }
    return {"key": number, "value": {**value, "note": None if number % 4 else "x" * (number + 1)}}


@pytest.mark.long
def test_a_topic_keeps_the_suites_that_were_made_of_it(
    lake: Lake, tmp_path: Path, clock: Clock, cli: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same records append, merge and pass the audit; a bad one is refused by the rule of its column; a second time every file stays."""
    value = "rows INT, position INT, status STRING, digest STRING, word STRING, note STRING"
    orders = lake.create_topic("orders", key="INT", value=value)
    records = [*map(order, range(12)), {"key": 3, "tombstone": True}]
    orders.append(records)
    orders.merge()
    folder = tmp_path / "suites"
    made = orders.init_suites(str(folder))
    assert sorted(made.files) == sorted(str(folder / who / f"{door}.json") for who in ("orders", "default") for door in DOORS)
    assert (made.kept, made.left_out, made.profile["rows"]) == ([], [], 11)
    written = json.loads((folder / "orders" / "append.json").read_text(encoding="utf-8"))["expectations"]
    assert {one["kwargs"]["name"] for one in written} == {
        "key_present", "key_not_negative", "rows_present", "rows_not_negative", "position_present_2", "position_not_negative",
        "status_present", "status_known", "digest_present", "digest_form", "word_present", "word_form", "note_not_empty", "few_quarantined",
    }  # fmt: skip
    orders.configure({"quality.suites": f"{folder}/"})
    clock.tick(1)
    assert orders.append(records).warnings == {}
    assert orders.merge().run is not None
    assert orders.check().ok
    for change, rule in (
        ({"status": None}, "status_present"), ({"status": "lost"}, "status_known"), ({"digest": HEX.upper()}, "digest_form"),
        ({"word": "ab"}, "word_form"), ({"rows": -1}, "rows_not_negative"), ({"note": ""}, "note_not_empty"),
        ({"position": None}, "position_present_2"),
    ):  # fmt: skip
        bad = order(1)
        with pytest.raises(GateFailed) as error:
            orders.append([order(2), {**bad, "value": {**bad["value"], **change}}])
        assert (error.value.name, error.value.details["rules"], error.value.details["records"]) == ("GATE_FAILED", [rule], [1])
    (folder / "orders" / "append.json").write_text("mine", encoding="utf-8")
    (folder / "orders" / "merge.json").unlink()
    again = orders.init_suites()
    assert again.files == [str(folder / "orders" / "merge.json")]
    assert sorted([*again.files, *again.kept]) == sorted(made.files)
    assert (folder / "orders" / "append.json").read_text(encoding="utf-8") == "mine"
    with pytest.raises(InvalidRequest, match="s3://bucket/suites is no folder of this machine"):
        orders.init_suites("s3://bucket/suites")

    monkeypatch.setattr("lakelog.terminal.settings.Settings.open_lake", lambda self: lake)
    told = cli(["--root", lake.root, "check", "--init", "orders", "--folder", f"file:{tmp_path}/other"])
    assert (told.code, told.out.splitlines()[0]) == (0, f"orders: wrote 6 files with suites to {tmp_path}/other"), told.err
    assert (tmp_path / "other" / "orders" / "table.json").is_file() and not Path("file:").exists()
    wide = lake.create_topic("wide", key="INT", value=", ".join(f"f{number} INT" for number in range(40)))
    wide.append([{"key": 1, "value": {f"f{number}": number for number in range(40)}}])
    wide.merge()
    told = cli(["--root", lake.root, "check", "--init", "wide", "--folder", str(folder)])
    assert "no room at a door for 24 rules more, join some with AND: f16_not_negative, f17_not_negative, " in told.out
    wide.configure({"quality.suites": str(folder)})
    assert wide.check().ok


@pytest.mark.long
def test_a_topic_called_default_gets_rules_of_its_own(lake: Lake, tmp_path: Path) -> None:
    """Its suites are the default ones; a default suite that is there and is not understood stops all."""
    topic = lake.create_topic("default", key="INT", value="position INT")
    topic.append([{"key": 1, "value": {"position": 1}}])
    topic.merge()
    made = topic.init_suites(str(tmp_path / "suites"))
    assert len(made.files) == 3
    topic.configure({"quality.suites": str(tmp_path / "suites")})
    assert {one.rule for one in topic.check().findings} >= {"one_row_per_key", "position_present", "position_present_2", "key_present"}
    other = lake.create_topic("other", key="INT", value="INT")
    folder = write(tmp_path / "wrong", "default", append=[{"type": "expect"}])
    with pytest.raises(InvalidConfig, match=r"default/append\.json, expectation 1: expect: the description is missing"):
        other.init_suites(folder)
    assert not (tmp_path / "wrong" / "other").exists()
