"""The operations that are cut off: how each is called, what another process does after that, and what must be so in the end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakelog import Damaged, ExpectedOffsetMismatch, InvalidConfig, InvalidRequest, Lake, NotFound, Position, Refused, Topic, TopicNotFound
from lakelog.log.tail import log_end
from tests.laws import topics
from tests.oracle import Model, Record, Rule
from tests.strategies import NOON, Kind

KIND = Kind(
    "column", Rule("column", columns=(0, 1), barriers=True), {"compaction.strategy": "column", "compaction.strategy.column": "v, w"},
    value="v INT, w STRING",
)  # fmt: skip
WIDER = "v BIGINT, w STRING, x INT"
SETTINGS = {"segment.bytes": 1000, "snapshot.retention.ms": 3_600_000, "segment.ms": None}
Batch = dict[int, list[Record]]


def _batch(first: list[tuple[bytes, Any]], second: list[tuple[bytes, Any]]) -> Batch:
    return {index: [Record(key, value, NOON) for key, value in pairs] for index, pairs in enumerate((first, second))}


# Merged, appended, and appended later: with late records, tombstones, and keys that come back.
MERGED = _batch([(b"a", (1, "m")), (b"b", (2, "n")), (b"c", (1, "m"))], [(b"a", (5, "q")), (b"d", (1, None))])
WAITING = _batch([(b"a", (0, "late")), (b"b", None), (b"e", (3, "z"))], [(b"a", (6, "r"))])
MORE = _batch([(b"b", (0, "back")), (b"c", (0, "late"))], [(b"d", (2, "s")), (b"f", (1, "f"))])
LATER = _batch([(b"e", None), (b"g", (1, "g"))], [(b"d", (3, "t"))])
ENDS = {0: 6, 1: 3}
# For a gate that keeps out what is 100 or more: records that flow, records that are put aside, and those mended.
FLOWS = _batch([(b"h", (7, "a")), (b"a", (8, "b"))], [(b"i", (9, "c"))])
ASIDE = _batch([(b"y", (100, "d")), (b"z", (101, "e"))], [(b"z", (102, "f"))])
MENDED = _batch([(b"y", (0, "d")), (b"z", (1, "e"))], [(b"z", (2, "f"))])
LOW = {"type": "expect_rows_to_satisfy", "kwargs": {"name": "low", "expression": "_tombstone OR v < 100"}, "description": "v is below 100"}


def records(batch: Batch) -> list[dict[str, Any]]:
    """A batch as a request."""
    return topics.batch(batch, KIND)


def latest(topic: Topic) -> dict[Any, Any]:
    """(partition, key) to (offset, value, tombstone) of silver; fields that were added later hold NULL and are left out."""
    found = {}
    for key, (offset, value, _, _, tombstone) in topics.silver(topic).items():
        assert value is None or set(value[2:]) <= {None}
        found[key] = (offset, value and value[:2], tombstone)
    return found


def _model(batches: tuple[Batch, ...]) -> Model:
    model = Model(KIND.rule)
    for batch in batches:
        model.append(batch)
    return model


def wanted(*batches: Batch) -> dict[Any, Any]:
    """What `latest` is to give after these batches."""
    return {key: (offset, record.value, record.deletes) for key, (offset, record) in _model(batches).latest().items()}


def holds(topic: Topic, *batches: Batch) -> None:
    """The log holds these batches once and nothing else, silver what the rule makes of them, and nothing is wrong with either."""
    assert topic.verify().problems == []
    assert topic.ends() == {index: len(log) for index, log in _model(batches).log.items()}
    assert latest(topic) == wanted(*batches)


def appended(topic: Topic, batch: Batch) -> None:
    """Append and merge."""
    topic.append(records(batch))
    topic.merge()


@dataclass(frozen=True)
class Operation:
    """What is cut off: its name, the lake it works on (a template's name), the call, and what comes after it.

    ``afterwards`` is given the lake, whether another verb comes before the same call is made again, and whether the operation had begun.
    """

    name: str
    template: str
    call: Callable[[Lake], Any]
    afterwards: Callable[[Operation, Lake, bool, bool], None]


def _beside(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """Operations that stop no writer: an append and a merge before or after the same call again."""
    del begun
    for verb in ("append", "again") if other_first else ("again", "append"):
        if verb == "append":
            appended(lake.topic("t"), LATER)
        else:
            operation.call(lake)
    holds(lake.topic("t"), MERGED, WAITING, LATER)
    if operation.name == "types":
        assert lake.topic("t").types.value.simpleString() == "struct<v:bigint,w:string,x:int>"
    if operation.name == "settings":
        shown = {setting["name"]: (setting["value"], setting["origin"]) for setting in lake.topic("t").describe().config}
        assert {shown[name] for name in SETTINGS} == {(1000, "topic"), (3_600_000, "topic"), (604_800_000, "default")}


def _cut(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The log begins at the snapshot's end or where it began, never between; whoever writes next finishes what was begun."""
    for verb in ("append", "again") if other_first else ("again", "append"):
        if verb == "append":
            appended(lake.topic("t"), LATER)
            assert lake.topic("t").start().offsets == ({0: 8, 1: 5} if begun or not other_first else {0: 0, 1: 0})
        else:
            operation.call(lake)
    topic = lake.topic("t")
    assert topic.start().offsets == {0: 8, 1: 5}
    assert sorted(row["offset"] for row in topic.read().collect()) == [5, 8, 9]
    holds(topic, MERGED, WAITING, MORE, LATER)
    assert topic.verify().base is not None
    begin = topic.bootstrap("s")
    assert begin.position.offsets == topic.start().offsets


def _commit(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """A group is registered or it is not; another one can be, and so can it again."""
    del begun
    topic = lake.topic("t")
    assert topic.committed("g") in (None, Position(ENDS, 0, topic.uuid))
    if other_first:
        topic.commit("other", topic.position())
    operation.call(lake)
    assert topic.committed("g") == Position(ENDS, 0, topic.uuid)
    assert [one.group for one in topic.lag().groups] == ["g", "other"][: 1 + other_first]
    topic.merge()
    holds(topic, MERGED, WAITING)


def _append(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The producer repeats its append: the records are in the log once, whatever became of the first call."""
    del begun
    topic = lake.topic("t")
    if other_first:
        topic.merge()
    written = topic.ends() != ENDS
    if operation.name == "expected" and written:
        try:
            operation.call(lake)
        except ExpectedOffsetMismatch as error:
            assert f"from offset {ENDS[0]} on" in str(error)
        else:
            raise AssertionError("an expected offset held twice")
    elif operation.name == "token":
        assert operation.call(lake).repeated == written
    elif operation.name == "bulk" or not written:
        # A plain append makes no promise for its repeat: the writer looks at the log's end, and repeats what is not there.
        operation.call(lake)
    topic.merge()
    holds(topic, MERGED, WAITING, MORE)


def kept_aside(topic: Topic) -> list[tuple[Any, ...]]:
    """(partition, key, v, rules) of what is in quarantine."""
    return sorted((row["partition"], bytes(row["key"]), row["value"]["v"], row["rules"][0]) for row in topic.quarantined().collect())


def _aside(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The producer repeats its append: what flows is in the log once, what was put aside in quarantine once."""
    del begun
    topic = lake.topic("t")
    if other_first:
        topic.merge()
    if operation.name == "aside" or topic.ends() == ENDS:
        operation.call(lake)
    wanted = [(index, one.key, one.value[0], "low") for index, batch in ASIDE.items() for one in batch]
    assert kept_aside(topic) == sorted(wanted)
    topic.merge()
    holds(topic, MERGED, WAITING, FLOWS)
    topic.requeue(fix={"v": "v - 100"})
    topic.merge()
    holds(topic, MERGED, WAITING, FLOWS, MENDED)


def _requeue(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """Whoever requeues next goes on: the records are in the log once, and no longer in quarantine."""
    del begun
    topic, ends = lake.topic("t"), {0: 8, 1: 4}
    before = topic.ends() != ends
    if other_first:
        topic.append(records(LATER))
    operation.call(lake)
    assert kept_aside(topic) == []
    if not other_first:
        topic.append(records(LATER))
    topic.merge()
    holds(topic, MERGED, WAITING, FLOWS, *([MENDED, LATER] if before or not other_first else [LATER, MENDED]))


def gated(lake: Lake) -> Topic:
    """The topic of the templates with a gate that puts aside."""
    folder = Path(lake.root).parent / "suites"
    (folder / "t").mkdir(parents=True)
    (folder / "t" / "append.json").write_text(json.dumps({"name": "t.append", "expectations": [LOW]}))
    topic = create(lake)
    topic.append(records(MERGED))
    topic.merge()
    topic.append(records(WAITING))
    topic.configure({"quality.suites": str(folder), "quality.on.failure": "quarantine"})
    return topic


def split(lake: Lake, token: str | None = None) -> Any:
    """The append of a batch of which a part is put aside."""
    both = {index: [*FLOWS[index][:1], *ASIDE[index], *FLOWS[index][1:]] for index in FLOWS}
    return lake.topic("t").append(records(both), token=token)


def _create(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """What was half made is completed, or taken away by a deletion and made anew."""
    del begun
    if other_first:
        with contextlib.suppress(NotFound):
            lake.delete_topic("t")
    try:
        operation.call(lake)
    except InvalidRequest as error:
        assert error.name == "TOPIC_ALREADY_EXISTS"
    assert lake.topics() == ["t"]
    appended(lake.topic("t"), MERGED)
    holds(lake.topic("t"), MERGED)


def _delete(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """Whoever comes next finishes it, and nothing of the topic comes back."""
    if other_first:
        try:
            lake.topic("t").append(records(LATER))
            assert not begun, "nobody writes into a topic whose deletion was begun"
        except TopicNotFound:
            assert begun
    with contextlib.suppress(TopicNotFound):
        operation.call(lake)
    assert lake.topics() == []
    assert not Path(lake.root, "t").exists()
    create(lake)
    appended(lake.topic("t"), MERGED)
    holds(lake.topic("t"), MERGED)


def _repair(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The log was changed by hand: nobody writes it before its repair was begun, the next writer finishes it."""
    topic, done = lake.topic("t"), False
    if other_first:
        try:
            appended(topic, LATER)
            done = True
            assert begun, "a log changed by hand is not written"
        except Damaged:
            assert not begun
    operation.call(lake)
    assert topic.status().epoch == 1
    if not done:
        appended(topic, LATER)
    holds(topic, MERGED, LATER)


def _upgrade(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """It can be read all the time, and written after the next upgrade at the latest."""
    del begun
    topic = lake.topic("orders")
    before = sorted(topic.latest().collect())
    order = {"key": {"order_id": 99, "region": "eu"}, "value": {"status": "new", "updated_at": "2026-02-01T00:00:00Z"}, "partition": 0}
    written = 0
    if other_first:
        try:
            topic.append([order])
            written = 1
        except InvalidConfig as error:
            assert error.name == "UNSUPPORTED_VERSION"
    operation.call(lake)
    assert operation.call(lake).done == []
    assert (sorted(topic.latest().collect()), topic.verify().problems) == (before, [])
    topic.append([order])
    assert topic.merge().records == 2 + written, "with the one that had waited"
    live = {(row["order_id"], row["region"]) for row in topic.latest().collect()}
    assert live >= {(row["order_id"], row["region"]) for row in before} | {(99, "eu")}
    assert topic.verify().problems == []


def create(lake: Lake) -> Any:
    """The topic of the templates."""
    return lake.create_topic("t", value=KIND.value, partitions=2, config={**KIND.config, "segment.ms": 1_000_000})


def named(lake: Lake) -> None:
    """The topic of the templates with a snapshot ``s`` at its first batch, older than silver's retention."""
    topic = lake.create_topic("t", value=KIND.value, partitions=2, config={**KIND.config, "snapshot.retention.ms": 1000})
    topic.append(records(MERGED))
    topic.snapshot("s", keep="60 days")
    topic.append(records(WAITING))
    topic.merge()


def at_snapshot(topic: Topic) -> None:
    """The snapshot ``s`` holds what the first batch makes."""
    model = Model(KIND.rule)
    model.append(MERGED)
    rows = topic.latest("s").collect()
    wanted = {(key[0], key[1], *record.value) for key, (_, record) in model.latest().items() if not record.deletes}
    assert {(row["_partition"], bytes(row["key"]), row["v"], row["w"]) for row in rows} == wanted


def _snapshot(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """It is there as a whole, or not at all; the same call ends with it, unless the name was given to a state before."""
    del begun
    topic = lake.topic("t")
    if other_first:
        appended(topic, LATER)
    try:
        operation.call(lake)
    except Refused as error:
        assert error.name == "SNAPSHOT_EXISTS"
        assert other_first, "the state is the same"
    assert [one.name for one in topic.snapshots()] == ["x"]
    model = Model(KIND.rule)
    for batch in (MERGED, WAITING, LATER):
        model.append(batch)
    ends = topic.describe_snapshot("x").ends
    assert topics.silver(topic, topic.describe_snapshot("x").version).keys() == model.latest(ends).keys()
    if not other_first:
        appended(topic, LATER)
    holds(topic, MERGED, WAITING, LATER)


def _truncate(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """Whoever writes next finishes it first; what left the log is in quarantine once."""
    topic = lake.topic("t")
    if other_first:
        appended(topic, LATER)
        if begun:
            holds(topic, MERGED, LATER)
    operation.call(lake)
    holds(topic, MERGED)
    at_snapshot(topic)
    aside = [(row["partition"], row["offset"], row["epoch"], bytes(row["key"])) for row in topic.quarantined().collect()]
    assert len(aside) == len(set(aside))
    left = {(index, len(MERGED[index]) + place, 0, one.key) for index, batch in WAITING.items() for place, one in enumerate(batch)}
    assert {row for row in aside if row[2] == 0} >= left
    appended(topic, MORE)
    holds(topic, MERGED, MORE)


def _keep(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The log stays, and the next merge replays it."""
    del begun
    topic = lake.topic("t")
    if other_first:
        appended(topic, LATER)
    operation.call(lake)
    assert topic.status().epoch == 0
    topic.merge()
    holds(topic, MERGED, WAITING, *([LATER] if other_first else []))
    at_snapshot(topic)


def _maintain(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """Nothing that is kept is lost, whatever was cut off; the same call ends with a table of its own for what outlives the retention."""
    del begun
    topic = lake.topic("t")
    at_snapshot(topic)
    if other_first:
        appended(topic, LATER)
    operation.call(lake)
    assert topic.describe_snapshot("s").form == "table"
    at_snapshot(topic)
    holds(topic, MERGED, WAITING, *([LATER] if other_first else []))
    topic.restore("s")
    holds(topic, MERGED)


def segmented(lake: Lake) -> None:
    """The template ``segments``: a topic whose appends each fill a segment, with records to be cleaned away in most."""
    topic = lake.create_topic("t", value=KIND.value, partitions=2, config={**KIND.config, "segment.bytes": 14})
    for batch in (MERGED, WAITING, MORE):
        topic.append(records(batch))


def _clean(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The latest table is as it was; the same call again leaves the winners and the active segments, and a third finds nothing."""
    del begun
    topic, batches = lake.topic("t"), [MERGED, WAITING, MORE]
    if other_first:
        appended(topic, LATER)
        batches.append(LATER)
    operation.call(lake)
    holds(topic, *batches)
    winners = {(index, offset) for (index, _), (offset, _) in _model(tuple(batches)).latest().items()}
    first = {index: tail.active for index, tail in log_end(topic.log).tails.items()}
    found = {(row["partition"], row["offset"]) for row in topic.read().collect()}
    assert winners <= found and all(place in winners or place[1] >= first[place[0]] for place in found)
    version = topic.status().bronze_version
    assert (operation.call(lake).records, topic.status().bronze_version) == (0, version)


def _erase(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The key is nowhere, whoever finished it; nothing else changed, and a restore does not bring it back."""
    topic, batches = lake.topic("t"), [MERGED, WAITING]
    if other_first:
        appended(topic, LATER)
        batches.append(LATER)
        if begun:
            assert not topic.read().filter("key = binary('a')").count(), "whoever writes next finishes it first"
    operation.call(lake)
    topic.merge()
    assert latest(topic) == {place: row for place, row in wanted(*batches).items() if place[1] != b"a"}
    assert not topic.read().filter("key = binary('a')").count()
    assert {bytes(row["key"]) for row in topic.latest("s").collect()} == {b"b", b"c", b"d"}
    assert topic.verify().problems == []
    topic.restore("s")
    assert {bytes(row["key"]) for row in topic.latest().collect()} == {b"b", b"c", b"d"}
    assert (topic.verify().problems, set(operation.call(lake).removed.values())) == ([], {0})


def exported(lake: Lake) -> Any:
    """The template's topic, written to a directory beside its lake."""
    return lake.topic("t").export(Path(lake.root).parent / "out")


def imported(lake: Lake) -> Any:
    """What `exported` wrote, as another topic of the same lake."""
    return lake.import_topic(Path(lake.root).parent / "out", name="copy")


def _export(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """The directory is whole or it is no export; the same call again makes it whole, and it is the topic."""
    del begun
    topic = lake.topic("t")
    if other_first:
        appended(topic, LATER)
    try:
        operation.call(lake)
    except InvalidRequest as error:
        assert error.name == "NOT_EMPTY", "it was whole"
    copy = imported(lake)
    assert copy.verify().problems == []
    first = {0: 6, 1: 3} if copy.ends() == ENDS else {0: 8, 1: 4}
    assert copy.ends() == first and (other_first or first == ENDS)
    copy.merge()
    merged = [MERGED, WAITING, *([LATER] if first != ENDS else [])]
    assert latest(copy) == wanted(*merged)
    topic.merge()
    holds(topic, MERGED, WAITING, *([LATER] if other_first else []))


def _import(operation: Operation, lake: Lake, other_first: bool, begun: bool) -> None:
    """There is no topic of that name until all of it is there; the same call again makes it."""
    del begun
    if other_first:
        appended(lake.topic("t"), LATER)
    try:
        operation.call(lake)
    except InvalidRequest as error:
        assert error.name == "TOPIC_ALREADY_EXISTS", "it was whole"
    assert lake.topics() == ["copy", "t"]
    copy = lake.topic("copy")
    appended(copy, LATER)
    assert latest(copy) == wanted(MERGED, WAITING, LATER)
    assert (copy.ends(), copy.verify().problems) == ({0: 8, 1: 4}, [])


def _bulk(lake: Lake) -> Any:
    file = Path(lake.root).parent / "more.ndjson"
    file.write_text("".join(json.dumps(record) + "\n" for record in records(MORE)), encoding="utf-8")
    return lake.topic("t").load(str(file), identity="more", chunk=2)


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("expected", "sound", lambda lake: lake.topic("t").append(records(MORE), expected_offset=ENDS), _append),
        Operation("token", "sound", lambda lake: lake.topic("t").append(records(MORE), token="more"), _append),
        Operation("plain", "sound", lambda lake: lake.topic("t").append(records(MORE)), _append),
        Operation("bulk", "sound", _bulk, _append),
        Operation("aside", "gated", lambda lake: split(lake, "aside"), _aside),
        Operation("aside_without_token", "gated", split, _aside),
        Operation("requeue", "aside", lambda lake: lake.topic("t").requeue(fix={"v": "v - 100"}), _requeue),
        Operation("merge", "sound", lambda lake: lake.topic("t").merge(), _beside),
        Operation("rebuild", "sound", lambda lake: lake.topic("t").merge(rebuild=True), _beside),
        Operation("types", "sound", lambda lake: lake.topic("t").configure(value=WIDER), _beside),
        Operation("settings", "sound", lambda lake: lake.topic("t").configure(SETTINGS), _beside),
        Operation("cut", "covered", lambda lake: lake.topic("t").truncate("s"), _cut),
        Operation("commit", "sound", lambda lake: lake.topic("t").commit("g", Position(ENDS, 0)), _commit),
        Operation("create", "nothing", create, _create),
        Operation("delete", "sound", lambda lake: lake.delete_topic("t"), _delete),
        Operation("repair", "restored", lambda lake: lake.topic("t").repair(), _repair),
        Operation("snapshot", "sound", lambda lake: lake.topic("t").snapshot("x", keep="60 days"), _snapshot),
        Operation("truncate", "named", lambda lake: lake.topic("t").restore("s"), _truncate),
        Operation("keep", "named", lambda lake: lake.topic("t").restore("s", log="keep"), _keep),
        Operation("maintain", "named", lambda lake: lake.topic("t").maintain(), _maintain),
        Operation("clean", "segments", lambda lake: lake.topic("t").clean(force=True), _clean),
        Operation("erase", "named", lambda lake: lake.topic("t").erase(b"a"), _erase),
        Operation("export", "sound", exported, _export),
        Operation("import", "exported", imported, _import),
        Operation("upgrade", "old", lambda lake: lake.upgrade(), _upgrade),
    )
}  # fmt: skip
