"""Law 7 on local disks, where Delta looks for a commit file, finds none, and renames over whatever came there since."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from lakelog import Lake
from lakelog.delta import tables
from tests.races.processes import race
from tests.races.test_races import dense_and_once

pytestmark = pytest.mark.long
# What a disk could do as well: each rename of a commit file begins late, so that all who looked for it meanwhile have found none.
SLOW_RENAMES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
int rename(const char *from, const char *to) {
    size_t n = strlen(to);
    if (strstr(to, "/_delta_log/") && n > 5 && !strcmp(to + n - 5, ".json")) usleep(SLEEP);
    return ((int (*)(const char *, const char *)) dlsym(RTLD_NEXT, "rename"))(from, to);
}
"""


def slow_renames(folder: Path, seconds: float) -> str:
    """A library under which a commit's rename takes its time."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler to make renames slow")
    (folder / "slow.c").write_text(SLOW_RENAMES)
    library = folder / "slow.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-DSLEEP={int(seconds * 1e6)}", "-o", str(library), str(folder / "slow.c"), "-ldl"], check=True
    )
    return str(library)


def attempts(lake: Lake, topic: Any) -> list[int]:
    """How often each append was tried before it was written, by the notes of the commits."""
    notes = [json.loads(row["userMetadata"]) for row in tables.history(lake.spark, topic.bronze, 1000) if row["userMetadata"]]
    return [found["attempts"] for found in notes if found.get("lakelog") == "append"]


def test_commits_whose_renames_meet_have_one_winner_each(lake: Lake, tmp_path: Path) -> None:
    """Two processes append while every rename takes two seconds after Delta looked; without a lock the later one replaces the other's commit."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    plans = [{"root": lake.root, "topic": "t", "name": f"w{index}", "mode": "plain", "count": 4} for index in range(2)]
    lines = race(plans, preload=slow_renames(tmp_path, 2.0))
    told = [tuple(line["offsets"]) for answers in lines.values() for line in answers if "append" in line]
    assert sorted(told) == [(start, start + 3) for start in range(0, 24, 3)]
    dense_and_once(topic, {0: 24})
    assert topic.verify().problems == []


def test_appends_of_several_processes_to_one_partition_queue_up(lake: Lake) -> None:
    """None fails at another's commit and starts over: each is written at its first try."""
    writers, appends = 3, 5
    topic = lake.create_topic("t", key="STRING", value="STRING")
    plans = [{"root": lake.root, "topic": "t", "name": f"w{index}", "mode": "plain", "count": appends} for index in range(writers)]
    began = time.monotonic()
    lines = race(plans)
    seconds = time.monotonic() - began
    waits = [line["span"][1] - line["span"][0] for answers in lines.values() for line in answers if "append" in line]
    print(f"{len(waits)} appends in {seconds:.0f} s with the start of Spark; {len(waits) / (sum(waits) / writers):.2f} commits/s")
    assert len(waits) == writers * appends
    dense_and_once(topic, {0: writers * appends * 3})
    assert attempts(lake, topic) == [1] * (writers * appends)
