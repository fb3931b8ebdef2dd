"""Records that a gate puts aside: none is lost, none is there twice, whatever is appended again after an append was cut off or was not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakelog.errors import Conflict, Refused
from lakelog.log import append
from lakelog.quality.gate import AppendGate
from tests.conftest import Clock
from tests.interleaving import late
from tests.quality.folders import rows, write

if TYPE_CHECKING:
    from lakelog import Lake, Topic

POSITIVE = rows("positive", "_tombstone OR value > 0")


class CutOff(BaseException):
    """The process is gone."""


def gated(lake: Lake, folder: Path, name: str = "t", **config: Any) -> Topic:
    suites = write(folder / "suites", name, append=[POSITIVE])
    return lake.create_topic(
        name, key="STRING", value="INT", config={"quality.suites": suites, "quality.on.failure": "quarantine", **config}
    )


def some(**values: int) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def aside(topic: Topic) -> list[str]:
    return sorted(row["key"] for row in topic.quarantined().select("key").collect())


def cut_off(topic: Topic, patch: pytest.MonkeyPatch, records: list[dict[str, Any]], token: str | None = None) -> None:
    """An append that ends between its commit on the quarantine and the one on the log."""

    def gone(*_: Any) -> Any:
        raise CutOff

    with patch.context() as patched, pytest.raises(CutOff):
        patched.setattr(append, "_written", gone)
        topic.append(records, token=token)


@pytest.mark.long
def test_a_copy_of_a_batch_is_new_whatever_became_of_the_first(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """Nothing of it was let in; it was dropped; a part was let in, and a restore or retention took that; equal records make no batches equal."""
    topic = gated(lake, tmp_path)
    assert topic.append(some(pear=-5)).quarantined == 1
    assert topic.append(some(pear=-5)).quarantined == 1
    assert aside(topic) == ["pear", "pear"]
    topic.drop("known")
    assert topic.append(some(pear=-5)).quarantined == 1
    assert (aside(topic), topic.ends()) == (["pear"], {0: 0})

    topic.append([*some(p=-5), *some(p=-5)])
    topic.append([*some(q=-7), *some(q=-7)])
    assert aside(topic) == ["p", "p", "pear", "q", "q"]
    topic.drop("known")

    # The same records aside, others let in: another batch. Then the log is emptied, and the same batch comes again.
    topic.snapshot("empty")
    topic.append(some(a=1, bad=-1))
    topic.append(some(b=1, bad=-1))
    topic.restore("empty")
    topic.append(some(a=1, bad=-1))
    assert aside(topic) == ["a", "b", "bad", "bad", "bad"]
    assert (topic.ends(), topic.verify().problems) == ({0: 1}, [])


@pytest.mark.long
def test_an_append_that_was_cut_off_goes_on_by_the_same_and_puts_nothing_aside_twice(
    lake: Lake, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a token and without; what was decided of a record meanwhile: under the token it stays so, else the copy is a new record."""
    topic = gated(lake, tmp_path)
    cut_off(topic, monkeypatch, some(bad=-1))
    assert (topic.append(some(bad=-1)).quarantined, aside(topic)) == (1, ["bad"])
    assert (topic.append(some(bad=-1)).quarantined, aside(topic)) == (1, ["bad", "bad"])
    topic.drop("known")

    cut_off(topic, monkeypatch, some(good=1, bad=-1))
    assert topic.requeue(fix={"value": "abs(value)"}).records == 1
    done = topic.append(some(good=1, bad=-1))
    assert (done.offsets, done.token, aside(topic)) == ({0: (1, 2)}, None, ["bad"])

    cut_off(topic, monkeypatch, some(good=1, worse=-1, mended=-2), "day")
    assert topic.requeue(key="worse", fix={"value": "abs(value)"}).records == 1
    assert topic.append(some(good=1, worse=-1, mended=2), token="day").offsets == {0: (3, 5)}
    assert aside(topic) == ["bad"], "one was appended before, the other is let in now"
    cut_off(topic, monkeypatch, some(fine=1, late=-3), "night")
    assert aside(topic) == ["bad", "late"]
    assert topic.append(some(fine=1, late=3), token="night").offsets == {0: (5, 7)}
    assert aside(topic) == ["bad"], "nothing is put aside any more, and nothing stays of what was"
    clock.tick(topic.config.number("producer.id.expiration.ms"))
    topic.append(some(bad=-2), token="day")
    assert aside(topic) == ["bad", "bad"], "a token that is forgotten names another batch"


@pytest.mark.long
def test_what_is_put_aside_again_has_the_place_and_the_rules_of_the_later_try(
    lake: Lake, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it stands decides whether a requeue would overwrite a newer record of its key."""
    topic = gated(lake, tmp_path)
    for token, first in (("day", [*some(k=1), *some(k=-2)]), (None, [*some(k=3), *some(k=-2)])):
        cut_off(topic, monkeypatch, first, token)
        [since] = topic.quarantined().select("time").collect()
        clock.tick(1)
        write(tmp_path / "suites", "t", append=[rows(f"above_{token}", POSITIVE["kwargs"]["expression"])])
        topic.append([*some(k=-2), *some(k=3)], token=token)
        [found] = topic.quarantined().select("record", "rules", "time").collect()
        assert (found["record"], found["rules"], found["time"]) == (0, [f"above_{token}"], since["time"])
        with pytest.raises(Refused) as refused:
            topic.requeue(fix={"value": "abs(value)"})
        assert refused.value.name == "WOULD_OVERWRITE"
        topic.drop("known")
        write(tmp_path / "suites", "t", append=[POSITIVE])


def test_what_was_put_aside_goes_when_the_batch_is_let_in_as_a_whole(
    lake: Lake, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule was relaxed, and records are put aside no longer, by the topic or by the append; or the topic has no suite any more."""
    records = some(good=1, bad=-1)
    for name, ends in (("refuses", None), ("expects", {0: 0}), ("open", None)):
        topic = gated(lake, tmp_path, name)
        cut_off(topic, monkeypatch, records, "day")
        write(tmp_path / "suites", name, append=[rows("positive", "value > -10")])
        if name == "refuses":
            topic.configure({"quality.on.failure": "refuse"})
        elif name == "open":
            (tmp_path / "suites" / name / "append.json").unlink()
        assert aside(topic) == ["bad"]
        done = topic.append(records, token="day", expected_offset=ends)
        assert (done.offsets, aside(topic), topic.verify().problems) == ({0: (0, 2)}, [], []), name
        assert topic.append(records, token="day").repeated


@pytest.mark.long
def test_an_append_that_was_slow_and_not_cut_off_is_a_batch_of_its_own(
    lake: Lake, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An equal append went on with what it had put aside, and was first."""
    topic, other, written = gated(lake, tmp_path), lake.topic("t"), append._written

    def slow(*given: Any) -> Any:
        monkeypatch.setattr(append, "_written", written)
        other.append(some(good=1, bad=-1))
        return written(*given)

    monkeypatch.setattr(append, "_written", slow)
    topic.append(some(good=1, bad=-1))
    assert (topic.ends(), aside(topic)) == ({0: 2}, ["bad", "bad"])


@pytest.mark.soak
@pytest.mark.parametrize("token", ["day", None])
def test_what_another_try_goes_on_with_stays_when_the_first_one_fails(
    lake: Lake, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    """The first one fails between the other's commits on the quarantine and on the log, or after both."""
    topic, other, records = gated(lake, tmp_path), lake.topic("t"), some(good=1, bad=-1)
    failed: list[tuple[AppendGate, str]] = []

    def fails(*_: Any) -> Any:
        raise Conflict("an operation is under way")

    def failing(*, slow: bool) -> None:
        with monkeypatch.context() as patched, pytest.raises(Conflict):
            patched.setattr(append, "_written", fails)
            if slow:
                patched.setattr(AppendGate, "withdraw", lambda gate, batch_id: failed.append((gate, batch_id)))
            topic.append(records, token=token)

    failing(slow=False)
    assert aside(topic) == [], "nobody else goes on with it"
    failing(slow=True)
    [(gate, batch_id)] = failed
    late(monkeypatch, append, "_written", lambda: gate.withdraw(batch_id))
    assert (other.append(records, token=token).quarantined, aside(topic)) == (1, ["bad"])
    gate.withdraw(batch_id)
    assert (topic.ends(), aside(topic)) == ({0: 1}, ["bad"])


@pytest.mark.long
def test_a_record_that_is_put_aside_for_its_time_is_the_same_a_moment_later(
    lake: Lake, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason names the time of the append."""
    topic = gated(lake, tmp_path, **{"message.timestamp.after.max.ms": 3_600_000})
    times = (clock.now + 7_200_000, clock.now + 7_200_001)
    batch = [*some(good=1), *({"key": "early", "value": 2, "timestamp": time} for time in times)]
    for token in (None, "day"):
        cut_off(topic, monkeypatch, batch, token)
        clock.tick(1)
        assert (topic.append(batch, token=token).quarantined, aside(topic)) == (2, ["early", "early"])
        topic.drop("known")


@pytest.mark.soak
def test_what_a_slow_append_put_aside_is_not_lost_to_another_with_other_records(
    lake: Lake, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one, under the same token, takes back what it does not put aside itself. Then it is cut off; or it is first."""
    topic, other = gated(lake, tmp_path), lake.topic("t")
    late(monkeypatch, append, "_written", lambda: cut_off(other, monkeypatch, some(good=1, mended=1, bad=-2), "day"))
    done = topic.append(some(good=1, mended=-1, bad=-2), token="day")
    assert (done.quarantined, done.repeated, topic.ends(), aside(topic)) == (2, False, {0: 1}, ["bad", "mended"])
    late(monkeypatch, append, "_written", lambda: other.append(some(fine=1, mended=1, worse=-3), token="night"))
    done = topic.append(some(fine=1, mended=-1, worse=-3), token="night")
    assert (done.quarantined, done.repeated, topic.ends(), aside(topic)) == (1, True, {0: 3}, ["bad", "mended", "worse"])
    # Nothing of it is let in, and it is written while the other one reads its records.
    late(monkeypatch, AppendGate, "admit", lambda: other.append(some(worst=-4), token="dawn"))
    done = topic.append(some(worst=-4), token="dawn")
    assert (done.quarantined, done.repeated, aside(topic)) == (1, True, ["bad", "mended", "worse", "worst"])
    late(monkeypatch, AppendGate, "admit", lambda: other.append(some(last=-5), token="noon"))
    done = topic.append(some(last=5), token="noon")
    assert (done.quarantined, done.repeated, topic.ends(), aside(topic)) == (1, True, {0: 3}, ["bad", "last", "mended", "worse", "worst"])
    assert topic.verify().problems == []
