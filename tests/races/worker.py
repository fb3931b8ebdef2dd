"""One writer in a process of its own: ``worker.py`` with a plan as JSON on the command line; answers line by line as JSON on stdout.

The plan: ``root``, ``topic``, ``name`` of the writer, ``mode``, ``count`` of appends, and what the mode needs. A line ``ready`` comes first; the
work begins when standard input says ``go``, so that writers start together.
"""

from __future__ import annotations

import json
import sys
import time

from lakelog import Lake, LakelogError, local_session
from tests.conftest import QUICK_SPARK


def say(content: dict) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def append(topic, plan: dict, number: int) -> None:
    """One append under the plan's mode; conditional ones go on from the true end that a refusal tells."""
    partition = plan.get("partition", 0)
    records = [
        {"key": f"{plan['name']}-{number}-{index}", "value": "x" * plan.get("size", 10), "partition": partition}
        for index in range(plan.get("records", 3))
    ]
    began = time.monotonic()
    if plan["mode"] != "conditional":
        terms = {"token": f"{plan['token']}-{number}"} if plan["mode"] == "token" else {}
        if plan["mode"] == "expected":
            terms = {"expected_offset": {partition: plan["expected"]}}
        appended = topic.append(records, **terms)
        say({"append": number, "offsets": appended.offsets[partition], "repeated": appended.repeated, "seconds": time.monotonic() - began})
        return
    expected, refusals = topic.ends()[partition], 0
    while True:
        try:
            appended = topic.append(records, expected_offset={partition: expected})
            say({"append": number, "offsets": appended.offsets[partition], "expected": expected, "refusals": refusals})
            return
        except LakelogError as error:
            if error.name != "EXPECTED_OFFSET_MISMATCH":
                raise
            say({"refused": number, "expected": error.expected, "actual": error.actual})
            expected, refusals = error.actual, refusals + 1


def main() -> None:
    plan = json.loads(sys.argv[1])
    spark = local_session("worker", master="local[1]", memory="1g", config={"spark.sql.shuffle.partitions": "1", **QUICK_SPARK})
    lake = Lake(spark, plan["root"])
    topic = lake.topic(plan["topic"])
    say({"ready": plan["name"]})
    if plan.get("wait", True):
        sys.stdin.readline()
    try:
        if plan["mode"] == "bulk":
            loaded = topic.load(plan["file"], identity=plan["identity"], chunk=plan["chunk"], tell=lambda done, total: say({"done": done}))
            say({"loaded": loaded.to_dict()})
        elif plan["mode"] == "merge":
            for _ in range(plan["count"]):
                say({"merged": topic.merge().to_dict()})
        elif plan["mode"] == "optimize":
            for _ in range(plan["count"]):
                spark.sql(f"OPTIMIZE delta.`{plan['root']}/{plan['topic']}/bronze`").collect()
                say({"optimized": True})
        elif plan["mode"] == "configure":
            for number in range(plan["count"]):
                topic.configure({"segment.bytes": 100_000 + number})
                say({"configured": number})
        else:
            for number in range(plan["count"]):
                append(topic, plan, number)
    except LakelogError as error:
        say({"error": error.name, "retry": error.retryable, "message": str(error)})
    say({"end": plan["name"]})


if __name__ == "__main__":
    main()
