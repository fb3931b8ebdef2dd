"""One writer in a process of its own: ``worker.py`` with a plan as JSON on the command line; answers line by line as JSON on stdout.

The plan: ``root``, ``topic``, ``name`` of the writer, ``mode`` (plain, conditional, merge, clean), ``count`` of verbs, and perhaps the ``partition``
or a merge's ``max_records``; of merges and cleans that are ``moving`` those count that had something to do; appends wait ``pause`` seconds after
each, with ``keys`` their keys come back after so many, and they go on until the writers named ``beside`` have ended.
A line ``ready`` comes first; the work begins when standard input says ``go``, so that writers start together.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

from lakelog import Conflict, Lake, LakelogError, local_session
from tests.conftest import QUICK_SPARK


def say(content: dict) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def append(topic, plan: dict, number: int) -> None:
    """One append, plain or conditional; conditional ones go on from the true end that a refusal tells."""
    partition, conditional = plan.get("partition", 0), plan["mode"] == "conditional"
    name = f"{plan['name']}-{number % plan.get('keys', number + 1)}"
    records = [{"key": f"{name}-{index}", "value": f"{number:010}", "partition": partition} for index in range(3)]
    expected = topic.ends()[partition] if conditional else -1
    while True:
        began = time.monotonic()
        try:
            appended = topic.append(records, expected_offset={partition: expected} if conditional else None)
        except LakelogError as error:
            if error.name != "EXPECTED_OFFSET_MISMATCH":
                raise
            say({"refused": number, "expected": error.expected, "actual": error.actual, "span": [began, time.monotonic()]})
            expected = error.actual
        else:
            told = {"append": number, "partition": partition, "offsets": appended.offsets[partition], "expected": expected}
            return say({**told, "span": [began, time.monotonic()]})


def mark(plan: dict, name: str) -> Path:
    """What tells that a writer of a lake has ended."""
    return Path(f"{plan['root']}.{name}.ended")


def merge(topic, plan: dict) -> None:
    """One merge; a ``moving`` one has something to merge, or after two minutes it has not."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        done = topic.merge(max_records=plan.get("max_records"))
        if done.records or not plan.get("moving"):
            return say({"merged": done.to_dict()})
        time.sleep(0.2)


def clean(topic, plan: dict) -> None:
    """One clean of all there is; a ``moving`` one goes on until something went, or for two minutes. Whom others kept from it tells so."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            topic.roll()
            done = topic.clean(force=True)
        except Conflict as error:
            say({"stopped": [error.exit_code]})
            continue
        say({"cleaned": done.records, "stopped": [one.error_code for one in done.partitions if one.error is not None]})
        if done.records or not plan.get("moving"):
            return


def main() -> None:
    plan = json.loads(sys.argv[1])
    spark = local_session("worker", master="local[1]", memory="1g", config=QUICK_SPARK)
    lake = Lake(spark, plan["root"])
    topic = lake.topic(plan["topic"])
    say({"ready": plan["name"]})
    sys.stdin.readline()
    try:
        for number in itertools.count():
            if number >= plan["count"] and all(mark(plan, name).exists() for name in plan.get("beside", ())):
                break
            if plan["mode"] in ("merge", "clean"):
                {"merge": merge, "clean": clean}[plan["mode"]](topic, plan)
            else:
                append(topic, plan, number)
                time.sleep(plan.get("pause", 0))
    except LakelogError as error:
        say({"error": error.name, "retry": error.retryable, "message": str(error)})
    finally:
        mark(plan, plan["name"]).touch()
    say({"end": plan["name"]})


if __name__ == "__main__":
    main()
