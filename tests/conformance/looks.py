"""What cases see of their topic: rows, counts, settings, and what readers are answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.conformance import support
from tests.conformance.cases import Step
from tests.conformance.picture import Camera, Picture, log_rows
from tests.conformance.script import Numbered
from tests.conformance.seat import Seat, texts

if TYPE_CHECKING:
    from lakelog import Lake, Topic


@dataclass
class Looks:
    """The looks of a group of cases at their topic.

    Attributes:
        lake: of the topic.
        topic: of the group.
        camera: takes the pictures of the topic's tables.
        config: gives the topic's settings.
        refused: carries out a step that must be refused.
    """

    lake: Lake
    topic: Topic
    camera: Camera
    config: Callable[[], dict[str, Any]]
    refused: Callable[[Seat, Numbered, Callable[[], Any]], None]

    def all(self, looks: list[tuple[Seat, Numbered]]) -> None:
        """Compare what the cases look at here with what they expect."""
        if not looks:
            return
        names = {name for _, (_, step) in looks if step["do"] == "expect" for name in step}
        picture = self.camera.picture(names) if names else None
        # Cases laid together count at the same looks (their signature says so): the first look of each makes a sum, the second another.
        counted: dict[tuple[int, str], int] = {}
        counting: dict[str, int] = {}
        for seat, (number, step) in looks:
            if step["do"] == "read":
                self._read(seat, number, step)
            elif step["do"] == "fetch":
                self._fetch(seat, number, step)
            elif picture is not None:
                self._expect(seat, number, step, picture)
                if "counts" in step:
                    place = counting.setdefault(seat.case.id, 0)
                    counting[seat.case.id] += 1
                    for name, count in step["counts"].items():
                        counted[place, name] = counted.get((place, name), 0) + count
        if counted:
            actual = self.lake.topic(self.topic.name).status().counts
            for (_, name), count in counted.items():
                if actual.get(name) != count:
                    for seat in self.seats:
                        if seat.case.id in counting:
                            seat.fail(looks[0][1][0], f"count {name} (sum over {len(counting)} cases)", count, actual.get(name))

    def _expect(self, seat: Seat, number: int, step: Step, picture: Picture) -> None:
        cleaned = any(passed["do"] in support.PASSED_OVER for passed in seat.case.steps[: number - 1])
        mine = picture.of(seat.base, seat.case.partitions)
        for name, wanted in step.items():
            if name not in support.LOOKS or name == "counts" or (cleaned and name in support.CHANGED_BY_CLEANING):
                continue
            if name == "config":
                actual = {setting: value for setting, value in self.config().items() if setting in wanted}
                if actual != wanted:
                    seat.fail(number, name, wanted, actual)
                continue
            for expected, actual in mine.unlike(name, wanted):
                seat.fail(number, name, expected, actual)

    def _fetch(self, seat: Seat, number: int, step: Step) -> None:
        partition = seat.base + step.get("partition", 0)
        expect = step.get("expect", {})

        def fetch() -> Any:
            return self.topic.fetch(partition, step["offset"], step["epoch"] + support.FIRST_EPOCH)

        if "error" in expect:
            return self.refused(seat, (number, step), fetch)
        found = fetch()
        shown = {"answer": found.answer, "offset": found.offset, "ends": None if found.ends is None else texts(found.ends)}
        shown["epoch"] = None if found.epoch is None else found.epoch - support.FIRST_EPOCH
        for name, wanted in expect.items():
            if shown[name] != wanted:
                seat.fail(number, f"fetch: {name}", wanted, shown[name])
        return None

    def _read(self, seat: Seat, number: int, step: Step) -> None:
        partition = seat.base + step.get("partition", 0)
        expect = step.get("expect", {})

        def read() -> Any:
            return log_rows(self.topic.read(partition=partition, offset=step["offset"], limit=step.get("limit")))

        if "error" in expect:
            self.refused(seat, (number, step), read)
            return
        rows = read()
        if "offsets" in expect and [row["offset"] for row in rows] != expect["offsets"]:
            seat.fail(number, "offsets read", expect["offsets"], [row["offset"] for row in rows])
        for wanted, actual in zip(expect.get("records", []), rows, strict=False):
            shown = {name: actual[name] for name in wanted if name != "partition"}
            if shown != {name: value for name, value in wanted.items() if name != "partition"}:
                seat.fail(number, "record read", wanted, shown)
