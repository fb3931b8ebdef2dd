"""The way back: records that were put aside are mended, appended again or dropped, once whatever happens in between."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog import GateFailed, InvalidRequest, Refused
from lakelog.log.append import AppendOptions
from lakelog.quality import quarantine, requeue
from tests.conftest import Clock
from tests.interleaving import late
from tests.quality.folders import rows, write

if TYPE_CHECKING:
    from lakelog import Lake, Topic

RULES = [rows("status_known", "_tombstone OR status IN ('new', 'shipped')"), rows("amount_positive", "_tombstone OR amount > 0")]


def record(key: int | None, status: str = "new", amount: int = 1) -> dict[str, Any]:
    return {"key": key, "value": {"status": status, "amount": amount}}


def topic(lake: Lake, folder: Path) -> Topic:
    suites = write(folder / "suites", "orders", append=RULES)
    config = {"quality.suites": suites, "quality.on.failure": "quarantine"}
    return lake.create_topic("orders", key="INT", value="status STRING, amount INT", config=config)


@pytest.mark.long
def test_requeued_records_are_mended_and_never_overwrite_newer_ones_unasked(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    orders = topic(lake, tmp_path)
    first = [record(1), record(1, "NEW", 2), record(2, "SHIPPED", 3), record(2, "new", 4), record(None, amount=5), record(3, amount=-6)]
    assert orders.append(first).quarantined == 4
    orders.merge()
    with pytest.raises(InvalidRequest, match="Did you mean status"):
        orders.requeue(rule="status_known", fix={"statsu": "lower(status)"})
    with pytest.raises(GateFailed, match="The records are in the quarantine as before: mend them"):
        orders.requeue(rule="status_known", overwrite=True)
    assert [row["value"]["status"] for row in orders.quarantined(key=2, source="append").collect()] == ["SHIPPED"]
    assert orders.quarantined(key=9).count() + orders.quarantined(token="none").count() == 0
    with pytest.raises(Refused) as error:
        orders.requeue(rule="status_known", fix={"status": "lower(status)"})
    assert (error.value.name, error.value.details["keys"]) == ("WOULD_OVERWRITE", ["2"]), "key 1 has no record behind the one put aside"
    assert (orders.ends(), orders.quarantined().count()) == ({0: 2}, 4)

    done = orders.requeue(key=1, fix={"status": "lower(status)"})
    assert (done.records, done.offsets) == (1, {0: (2, 3)})
    asked = orders.requeue(key=2, fix={"status": "lower(status)"}, overwrite=True)
    assert (asked.offsets, asked.overwritten) == ({0: (3, 4)}, ["2"])
    with pytest.raises(InvalidRequest, match="2 corrected records for 1 chosen"):
        orders.requeue(key=3, corrected=[record(3), record(3)])
    with pytest.raises(InvalidRequest, match="1 of the corrected records expect an offset"):
        orders.requeue(key=3, corrected=[{**record(3), "expected_offset": 99}])
    assert orders.requeue(rule="INVALID_RECORD", corrected=[record(4, amount=5)]).records == 1
    assert orders.drop("ordered by nobody", rule="amount_positive").records == 1
    orders.merge()
    assert {row["key"]: row["amount"] for row in orders.latest().collect()} == {1: 2, 2: 3, 4: 5}
    left = orders.quarantined(closed=True).orderBy("offset", "closed_at").collect()
    assert sorted((row["outcome"], row["note"]) for row in left) == [
        ("dropped", "ordered by nobody"), ("requeued", "corrected"), ("requeued", "status = lower(status)"), ("requeued", "status = lower(status)"),
    ]  # fmt: skip
    assert {(row["key"], row["value"], row["raw"]) for row in left} == {(None, None, None)}
    assert orders.quarantined().count() == 0
    assert orders.requeue().records == 0


@pytest.mark.long
def test_a_requeue_that_was_cut_off_or_is_slow_never_appends_twice(lake: Lake, tmp_path: Path) -> None:
    """Cut off before its append: the records are free again, and what is slow can no longer append them. Cut off behind it: they are closed."""
    orders = topic(lake, tmp_path)
    orders.append([record(1, amount=-1), record(2, amount=-2), record(3)])
    log = orders.log
    assert quarantine.claim(log, quarantine.rows(log), "requeue-slow") == 2
    done = orders.requeue(key=1, fix={"amount": "abs(amount)"})
    assert (done.records, done.offsets) == (1, {0: (1, 2)})
    late = orders._requeued([record(1, amount=1), record(2, amount=2)], AppendOptions(token="requeue-slow"))
    assert (late.repeated, late.records) == (True, 0), "the log knows the token, with no records"

    assert quarantine.claim(log, quarantine.rows(log), "requeue-cut-off") == 1
    orders._requeued([record(2, amount=2)], AppendOptions(token="requeue-cut-off"))
    again = orders.requeue(fix={"amount": "abs(amount)"})
    assert (again.records, again.offsets, orders.quarantined().count()) == (1, {}, 0)
    assert sorted((row["key"], row["value"]["amount"]) for row in orders.read().collect()) == [(1, 1), (2, 2), (3, 1)]
    assert requeue.settled(log, lambda: quarantine.rows(log), orders._requeued, now=orders.clock) == 0


@pytest.mark.soak
def test_a_restore_that_cuts_what_a_requeue_appended_leaves_each_record_once(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requeue was killed before it closed what it had in hand, and the restore takes its token out of the log."""
    orders = topic(lake, tmp_path)
    orders.append([record(1, amount=-1), record(3)])
    orders.merge()
    orders.snapshot("s")

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(quarantine, "close", killed)
        orders.requeue(fix={"amount": "abs(amount)"})
    assert orders.ends() == {0: 2}
    orders.restore("s")
    assert [(row["reason"], row["value"]["amount"]) for row in orders.quarantined().collect()] == [("RESTORED", 1)]
    assert [row["outcome"] for row in orders.quarantined(closed=True).collect()] == ["requeued"]
    assert orders.requeue().records == 1
    assert [(row["key"], row["offset"]) for row in orders.read().collect()] == [(3, 0), (1, 1)]


def test_a_drop_leaves_what_a_requeue_has_in_hand(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = topic(lake, tmp_path)
    orders.append([record(1, amount=-1), record(2, amount=-2), record(3)])
    log = orders.log

    def requeues() -> None:
        assert quarantine.claim(log, quarantine.rows(log).filter("key = 1"), "requeue-beside") == 1
        orders._requeued([record(1, amount=1)], AppendOptions(token="requeue-beside"))

    late(monkeypatch, quarantine, "close", requeues)
    assert orders.drop("never in the log").records == 1
    assert (orders.requeue().records, orders.quarantined().count()) == (1, 0), "the requeue was cut off before its close"
    assert sorted(row["outcome"] for row in orders.quarantined(closed=True).collect()) == ["dropped", "requeued"]
    assert [(row["key"], row["offset"]) for row in orders.read().collect()] == [(3, 0), (1, 1)]


@pytest.mark.soak
def test_in_several_partitions_newer_is_what_stands_behind_in_the_same_one(lake: Lake, tmp_path: Path) -> None:
    suites = write(tmp_path / "suites", "orders", append=RULES)
    config = {"quality.suites": suites, "quality.on.failure": "quarantine"}
    orders = lake.create_topic("orders", key="INT", value="status STRING, amount INT", partitions=2, config=config)
    orders.append([{**record(key), "partition": key % 2} for key in range(1, 6)])
    batch = [(0, 1, 1), (1, 2, -1), (0, 1, -1), (1, 2, 1), (0, 3, -1), (1, 4, 1), (1, 4, -1)]
    orders.append([{**record(10 * key, amount=amount), "partition": partition} for partition, key, amount in batch])
    assert orders.requeue(dry_run=True).overwritten == ["20"]
    for dry_run in (True, False):
        with pytest.raises(InvalidRequest, match="the records cannot be mended so: .*CAST_INVALID_INPUT"):
            orders.requeue(fix={"key": "CAST(status AS INT)"}, dry_run=dry_run)
    orders.append([{**record(10), "partition": 0}])
    orders.merge()
    with pytest.raises(Refused) as error:
        orders.requeue(fix={"amount": "abs(amount)"})
    assert error.value.details["keys"] == ["10", "20"]
    assert orders.requeue(key=30, fix={"amount": "3"}).offsets == {0: (4, 5)}

    # A fix brings records of several partitions to one key: they come in the order of the batch.
    words = [f"{number:03b}".translate({48: "a", 49: "A"}) for number in range(1, 8)]
    folder = write(tmp_path / "suites", "words", append=[rows("lower", "key = lower(key)")])
    topic = lake.create_topic("words", key="STRING", value="INT", partitions=4, config={**config, "quality.suites": folder})
    assert topic.append([{"key": word, "value": number} for number, word in enumerate(words)]).quarantined == 7
    assert len({row["partition"] for row in topic.quarantined().select("partition").collect()}) > 1
    topic.requeue(fix={"key": "lower(key)"})
    assert [row["value"] for row in topic.read().orderBy("offset").collect()] == list(range(7))


@pytest.mark.long
def test_what_could_not_be_read_never_comes_back_as_what_was_left_of_it(lake: Lake, tmp_path: Path) -> None:
    """A text where a number belongs is no delete, and 1.5 is not 1: such records are given anew, or all of each is said."""
    suites = write(tmp_path / "suites", "stock", append=[rows("positive", "_tombstone OR value > 0")])
    config = {"quality.suites": suites, "quality.on.failure": "quarantine"}
    topic = lake.create_topic("stock", key="STRING", value="INT", config=config)
    topic.append([{"key": "kiwi", "value": 7}, {"key": "fig", "value": 9}, {"key": "nut", "value": 1}])
    (tmp_path / "delivery.ndjson").write_text(
        '{"key":"kiwi","value":"many"}\n{"key":"fig","value":1.5}\nno json\n{"key":"nut","value":3,"timestamp":1e18}\n'
    )
    assert topic.append(tmp_path / "delivery.ndjson").quarantined == 4
    shown = topic.quarantined().orderBy("record").select("key", "value", "headers", "tombstone").collect()
    assert [tuple(row) for row in shown] == [(key, None, None, None) for key in ("kiwi", "fig", None, "nut")]
    for fix in (None, {"value": "5"}, {"key": "coalesce(key, 'nut')", "_timestamp": "now()"}):
        for dry_run in (True, False):
            with pytest.raises(
                InvalidRequest, match=r"3 of the chosen records could not be read, .* sets every column \(_tombstone, key, value\)"
            ):
                topic.requeue(rule="INVALID_RECORD", fix=fix, dry_run=dry_run)
    with pytest.raises(InvalidRequest, match="1 of the chosen records could not be read"):
        topic.requeue(rule="INVALID_TIMESTAMP", fix={"value": "3"})
    assert topic.requeue(rule="INVALID_TIMESTAMP", fix={"_timestamp": "timestamp_millis(5)"}).records == 1
    known = {"key": "get_json_object(_raw, '$.key')", "value": "6", "_tombstone": "false"}
    assert topic.requeue(key="kiwi", fix=known).records == 1
    for verb in (topic.requeue, lambda **more: topic.drop("known", **more)):
        with pytest.raises(InvalidRequest, match="Did you mean INVALID_RECORD"):
            verb(rule="INVALID_RECRD")
    assert topic.requeue(rule="INVALID_RECORD", corrected=[{"key": "fig", "value": 2}, {"key": "new", "value": 1}]).records == 2
    # One that could be read, and has no key, takes no more than that.
    assert topic.append([{"key": None, "value": 8}]).quarantined == 1
    assert [(row["value"], row["tombstone"]) for row in topic.quarantined().collect()] == [(8, False)]
    assert topic.requeue(rule="INVALID_RECORD", fix={"key": "'pear'"}).records == 1
    topic.merge()
    assert {row["key"]: row["value"] for row in topic.latest().collect()} == {"kiwi": 6, "fig": 2, "nut": 3, "new": 1, "pear": 8}
    assert topic.deleted().count() == 0


@pytest.mark.long
def test_a_fix_never_rounds_or_cuts_a_value(lake: Lake, tmp_path: Path) -> None:
    """What the expression gives must be one of its column's type; how it is rounded is the caller's to say."""
    suites = write(tmp_path / "suites", "prices", append=[rows("positive", "_tombstone OR price > 0")])
    config = {"quality.suites": suites, "quality.on.failure": "quarantine"}
    topic = lake.create_topic("prices", key="STRING", value="price DECIMAL(10,2), n INT, day DATE, rough DOUBLE", config=config)
    assert topic.append([{"key": "empty", "value": {"price": None, "n": None}}]).quarantined == 1
    write(tmp_path / "suites", "prices", append=[rows("any", "true")])
    assert topic.requeue(fix={"n": "n + 1"}).records == 1
    assert [row["tombstone"] for row in topic.read().collect()] == [False], "a fix makes no delete unasked"
    write(tmp_path / "suites", "prices", append=[rows("positive", "_tombstone OR price > 0")])
    topic.append([{"key": key, "value": {"price": f"-{number}", "n": 3}} for key, number in (("a", "1.25"), ("b", "2.00"))])
    for fix in ("abs(price) * 1.5", "'1.239'", "1.005D", "n / 7"):
        for dry_run in (True, False):
            with pytest.raises(
                InvalidRequest, match=r"^fix: price would be [0-9.]+, which is no DECIMAL\(10,2\): it would be rounded or cut"
            ):
                topic.requeue(fix={"price": fix}, dry_run=dry_run)
    for column, fix, told in (
        ("n", "price * 2", "n would be -2.50, which is no INT"),
        ("n", "1.5D", "n would be 1.5, which is no INT"),
        ("day", "TIMESTAMP '2026-05-06 07:00:00'", "day would be 2026-05-06 07:00:00, which is no DATE"),
        ("day", "'2026-05-06 07:00:00'", "day would be 2026-05-06 07:00:00, which is no DATE"),
        ("_partition", "0.5", "_partition would be 0.5, which is no INT"),
    ):
        with pytest.raises(InvalidRequest, match=told):
            topic.requeue(fix={"price": "abs(price)", column: fix})
    fix = {"price": "round(abs(price) * 1.5, 2)", "n": "price * 4", "day": "'2026-05-06'", "rough": "price / 3", "_partition": "0D"}
    assert topic.requeue(fix=fix).records == 2
    topic.merge()
    found = {row["key"]: (str(row["price"]), row["n"], str(row["day"])) for row in topic.latest().filter("price > 0").collect()}
    assert found == {"a": ("1.88", -5, "2026-05-06"), "b": ("3.00", -8, "2026-05-06")}


def test_a_fix_names_every_column_that_a_topic_may_have(lake: Lake, tmp_path: Path) -> None:
    suites = write(tmp_path / "suites", "odd", append=[rows("positive", "_tombstone OR `a.b` > 0")])
    config = {"quality.suites": suites, "quality.on.failure": "quarantine"}
    odd = lake.create_topic("odd", key="STRING", value="`a.b` INT, `c``d` INT, `_RAW` STRING", config=config)
    assert odd.append([{"key": "k", "value": {"a.b": -5, "c`d": 1, "_RAW": "r"}}]).quarantined == 1
    fix = {"a.b": "abs(`a.b`)", "c`d": "`c``d` + 1", "_RAW": "concat(_raw, '!')"}
    with pytest.raises(InvalidRequest, match="^fix: c`d would be 1.5, which is no INT"):
        odd.requeue(fix={**fix, "c`d": "1.5"}, dry_run=True)
    assert odd.requeue(fix=fix).records == 1
    assert [row["value"].asDict() for row in odd.read().collect()] == [{"a.b": 5, "c`d": 2, "_RAW": "r!"}]


@pytest.mark.long
def test_a_few_records_are_not_held_to_what_is_a_share_of_a_delivery(lake: Lake, tmp_path: Path) -> None:
    note = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "note", "mostly": 0.5}, "description": "note"}
    suites = write(tmp_path / "suites", "t", append=[rows("positive", "_tombstone OR amount > 0"), {**note, "severity": "critical"}])
    config = {"quality.suites": suites, "quality.on.failure": "quarantine"}
    orders = lake.create_topic("t", key="INT", value="amount INT, note STRING", config=config)
    records = [{"key": key, "value": {"amount": 1, "note": "n"}} for key in range(3)] + [{"key": 9, "value": {"amount": -5, "note": None}}]
    assert orders.append(records).quarantined == 1
    assert orders.requeue(rule="positive", fix={"amount": "abs(amount)"}).records == 1
    assert (orders.ends(), orders.quarantined().count()) == ({0: 4}, 0)
