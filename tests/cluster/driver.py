"""A driver in a process of its own: ``driver.py`` with a plan as JSON on the command line; answers line by line as JSON on stdout.

The plan: ``name``, ``root``, ``master``, ``config`` (Spark's settings), and ``mode``: ``path`` takes the main path of verbs, with a file in
``folder``; ``create`` creates the topic orders; ``append`` appends ``count`` times three records to it. The work begins when standard input
says ``go``.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

from lakelog import Conflict, Damaged, Lake, local_session
from tests.cluster.main_path import walk


def say(content: dict) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def append(lake: Lake, name: str, count: int) -> None:
    """Append again and again; a conflict that lakelog's own tries did not settle is told, and the append made again."""
    topic = lake.topic("orders")
    number = 0
    while number < count:
        records = [{"key": f"{name}-{number}-{index}", "value": name} for index in range(3)]
        try:
            appended = topic.append(records, token=f"{name}-{number}")
        except Conflict as error:
            say({"conflict": str(error)})
            continue
        except Damaged as error:
            return say({"damaged": str(error)})
        say({"append": number, "offsets": appended.offsets, "repeated": appended.repeated})
        number += 1


def main() -> None:
    plan = json.loads(sys.argv[1])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        spark = local_session(plan["name"], master=plan["master"], memory="1g", config=plan["config"])
        lake = Lake(spark, plan["root"])
        say({"ready": plan["name"]})
        sys.stdin.readline()
        if plan["mode"] == "path":
            walk(lake, Path(plan["folder"]))
        elif plan["mode"] == "create":
            lake.create_topic("orders", key="STRING", value="STRING")
        else:
            append(lake, plan["name"], plan["count"])
    say({"warnings": [str(one.message) for one in told if "arbitrate" in str(one.message)]})
    say({"end": plan["name"]})


if __name__ == "__main__":
    main()
