"""Runs cases against lakelog through its public API: groups of cases side by side in one topic, each on partitions of its own."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

from lakelog import Lake
from lakelog.errors import LakelogError
from tests.conformance import support
from tests.conformance.cases import START, Case, Step
from tests.conformance.looks import Looks
from tests.conformance.picture import Camera
from tests.conformance.script import Numbered, Script, script
from tests.conformance.seat import Seat, texts
from tests.conftest import Clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog import Topic

MOST_PARTITIONS = 120
_names = itertools.count(1)


def _point(snapshot: Any) -> str:
    """How a verb that takes a name is told a snapshot."""
    return snapshot if isinstance(snapshot, str) else str(snapshot.name or snapshot.id)


def run(spark: SparkSession, root: str, cases: list[Case]) -> dict[str, list[str]]:
    """Run cases, as many as possible side by side; gives each case's failures by its id."""
    groups: dict[str, list[Script]] = {}
    for case in cases:
        made = script(case)
        groups.setdefault(made.signature, []).append(made)
    outcome: dict[str, list[str]] = {}
    for scripts in groups.values():
        while scripts:
            partitions, taken = 0, 0
            for made in scripts:
                if taken and partitions + made.case.partitions > MOST_PARTITIONS:
                    break
                partitions, taken = partitions + made.case.partitions, taken + 1
            outcome |= _run_together(spark, root, scripts[:taken])
            scripts = scripts[taken:]
    return outcome


def _run_together(spark: SparkSession, root: str, scripts: list[Script]) -> dict[str, list[str]]:
    try:
        return Group(spark, root, scripts).run()
    except (LakelogError, AssertionError) as error:
        # A shared step failed and no single case can be blamed: each of the group is run by itself.
        if len(scripts) == 1:
            return {scripts[0].case.id: [f"a step that must succeed: {type(error).__name__}: {error}"]}
        return {key: value for made in scripts for key, value in _run_together(spark, root, [made]).items()}


class Group:
    """Cases of one signature in one topic, in lock-step."""

    def __init__(self, spark: SparkSession, root: str, scripts: list[Script]) -> None:
        self.clock = Clock(START)
        self.lake = Lake(spark, root, clock=self.clock)
        self.seats: list[Seat] = []
        partitions = 0
        for made in scripts:
            self.seats.append(Seat(made, partitions))
            partitions += made.case.partitions
        first = scripts[0].case
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            self.topic: Topic = self.lake.create_topic(f"c{next(_names)}", partitions=partitions, config=first.topic)
        self.camera = Camera(self.lake, self.topic.name)
        self.looks = Looks(self.lake, self.topic, self.camera, self._config, self._refused)
        self.merged: dict[str, int] = {}
        self.snapshots: dict[str, Any] = {}
        if first.warns is not None:
            told = set(self.topic.config.warnings())
            if told != set(first.warns) or not all(any(name in str(warning.message) for warning in warned) for name in first.warns):
                self.seats[0].fail(
                    0, "warnings at creation", list(first.warns), sorted(told) + [str(warning.message) for warning in warned]
                )

    def run(self) -> dict[str, list[str]]:
        """Execute all; failures by case id."""
        exact = self.seats[0].case.exact
        for index in range(len(self.seats[0].script.stretches)):
            stretches = [(seat, seat.script.stretches[index]) for seat in self.seats]
            self._event(stretches[0][1].event, [(seat, stretch.step) for seat, stretch in stretches])
            for place in range(max(len(stretch.rounds) for _, stretch in stretches)):
                rounds = [(seat, stretch.rounds[place]) for seat, stretch in stretches if place < len(stretch.rounds)]
                self._appends([(seat, made.append) for seat, made in rounds if made.append])
                if place and not exact:
                    self.topic.merge()
                if any(made.again for _, made in rounds):
                    self.topic.merge()
                self.looks.all([(seat, look) for seat, made in rounds for look in made.looks])
        return {seat.case.id: seat.failures for seat in self.seats}

    # ---- what changes the topic ----

    def _event(self, event: tuple[str, Any] | None, steps: list[tuple[Seat, Numbered | None]]) -> None:
        if event is None:
            return
        do, arguments = event
        if do == "now":
            self.clock.now = arguments
            return
        verbs = {
            "merge": lambda: self._merge(arguments),
            "configure": lambda: self.topic.configure(arguments["config"]),
            "rebuild": lambda: self._rebuild(arguments),
            "roll": lambda: self.topic.roll(),
            "clean": lambda: self.topic.clean(force=arguments.get("force", False)),
            "delete_records": lambda: self.topic.delete_records(
                self.seats[0].base + arguments.get("partition", 0), arguments.get("offset", -1)
            ),
            **self._snapshot_verbs(arguments),
        }
        expect = steps[0][1][1].get("expect", {}) if steps[0][1] else {}
        if "error" in expect:
            for seat, step in steps:
                if step:
                    self._refused(seat, step, verbs[do])
            return
        answer = verbs[do]()
        for seat, step in steps:
            if step and expect:
                self._answered(seat, step[0], do, expect, answer)

    def _merge(self, arguments: dict[str, Any]) -> None:
        """A merge; its silver version is remembered where the case gives it a label."""
        self.topic.merge()
        if "as" in arguments:
            self.merged[arguments["as"]] = self.topic.status().silver_version

    def _snapshot_verbs(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The verbs of snapshots: cases with them run alone."""

        def snapshot() -> Any:
            taken = self.topic.snapshot(arguments.get("name"), at=self.merged.get(arguments.get("at", "")))
            for handle in ("as", "name"):
                if handle in arguments:
                    self.snapshots[arguments[handle]] = taken
            return taken

        def which(field: str) -> Any:
            return self.snapshots.get(arguments[field], arguments[field])

        return {
            "snapshot": snapshot,
            "snapshots": lambda: self.topic.snapshots(),
            "load": lambda: self.camera.loaded(which("at")),
            "expire_snapshots": lambda: self.topic.expire_snapshots(),
            "truncate_log": lambda: self.topic.truncate(_point(which("to"))),
            "restore": lambda: self.topic.restore(which("to"), log=arguments.get("log", "truncate")),
        }

    def _answered(self, seat: Seat, number: int, do: str, expect: dict[str, Any], answer: Any) -> None:
        """Compare the answer of a topic-wide verb."""
        shown: dict[str, Any] = {}
        if do == "snapshot":
            shown = {"ends": texts(answer.ends), "epoch": answer.epoch - support.FIRST_EPOCH, "created": answer.created}
        elif do == "snapshots":
            shown = {"ids": [{"ends": texts(one.ends), "epoch": one.epoch - support.FIRST_EPOCH} for one in answer]}
        elif do == "load":
            for wanted, actual in answer.of(seat.base, seat.case.partitions).unlike("latest", expect["latest"]):
                seat.fail(number, "rows of the snapshot", wanted, actual)
            return
        for name, wanted in expect.items():
            if shown.get(name) != wanted:
                seat.fail(number, f"{do}: {name}", wanted, shown.get(name))

    def _rebuild(self, arguments: dict[str, Any]) -> None:
        if arguments.get("config"):
            self.topic.configure(arguments["config"])
        self.topic.merge(rebuild=True)

    def _appends(self, appends: list[tuple[Seat, Numbered]]) -> None:
        """The good ones as one request, then each that must be refused by itself."""
        good = [(seat, step) for seat, step in appends if "error" not in step[1].get("expect", {})]
        if good:
            answer = self._append([record for seat, (_, step) in good for record in self._records(seat, step)], good[0][1][1])
            following = {partition: first for partition, (first, _) in answer.offsets.items()}
            for seat, (number, step) in good:
                offsets = []
                for record in step["records"]:
                    partition = seat.base + record.get("partition", 0)
                    offsets.append(following[partition])
                    following[partition] += 1
                wanted = step.get("expect", {}).get("offsets")
                if wanted is not None and wanted != offsets:
                    seat.fail(number, "offsets of the records", wanted, offsets)
        for seat, step in appends:
            if "error" in step[1].get("expect", {}):
                self._refused(seat, step, lambda seat=seat, step=step: self._append(self._records(seat, step[1]), step[1]))

    def _append(self, records: list[dict[str, Any]], step: Step) -> Any:
        more: dict[str, Any] = {}
        if "token" in step:
            more["token"] = step["token"]
        if "epoch" in step:
            more["epoch"] = step["epoch"] + support.FIRST_EPOCH
        return self.topic.append(records, **more)

    def _records(self, seat: Seat, step: Step) -> list[dict[str, Any]]:
        records = []
        for given in step["records"]:
            record = {"key": given["key"], "value": given["value"], "partition": seat.base + given.get("partition", 0)}
            record |= {name: given[name] for name in ("timestamp", "tombstone") if name in given}
            if "headers" in given:
                record["headers"] = [[name, None if value is None else {"hex": value}] for name, value in given["headers"]]
            if "expected" in given:
                record["expected_offset"] = given["expected"]
            records.append(record)
        return records

    def _refused(self, seat: Seat, numbered: Numbered, action: Any) -> None:
        """A step that must raise the error it names, with its details, and change nothing: no table has a new commit, the settings are as before."""
        number, step = numbered
        expect = step["expect"]
        before, config = self.camera.versions(), self._config()
        try:
            answer = action()
        except LakelogError as error:
            if error.name != expect["error"]:
                seat.fail(number, "error", expect["error"], f"{error.name}: {error}")
            for name in ("records", "expected", "actual", "record", "duplicate_of"):
                if name in expect and getattr(error, name, "missing") != expect[name]:
                    seat.fail(number, f"error's {name}", expect[name], getattr(error, name, "missing"))
            if "partition" in expect and getattr(error, "partition", -1) - seat.base != expect["partition"]:
                seat.fail(number, "error's partition", expect["partition"], getattr(error, "partition", -1) - seat.base)
        else:
            seat.fail(number, "error", expect["error"], answer)
        if self.camera.versions() != before:
            seat.fail(number, "nothing may have been written: the tables' versions", before, self.camera.versions())
        if self._config() != config:
            seat.fail(number, "configuration after the refusal", config, self._config())

    def _config(self) -> dict[str, Any]:
        return {setting["name"]: setting["value"] for setting in self.topic.describe().config}
