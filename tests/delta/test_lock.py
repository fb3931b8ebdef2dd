"""The lock of a table: one writer at a time, of all threads and processes of this machine, whatever becomes of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakelog.delta import lock
from lakelog.delta.lock import held, lock_file
from lakelog.delta.statement import committing
from lakelog.errors import Conflict, InvalidRequest
from lakelog.model.names import TableRef
from tests.tables import versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog import Lake

ROOT = Path(__file__).parent.parent.parent
HOLDER = (
    "import sys; from lakelog.delta.lock import _TableLock; _TableLock(sys.argv[1]).acquire(); print('held', flush=True); sys.stdin.read()"
)


def holder(file: str) -> subprocess.Popen[str]:
    """Another process that holds a lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lock_keeps_out_threads_and_processes_and_ends_with_its_process(spark: SparkSession, tmp_path: Path) -> None:
    table = TableRef.of(str(tmp_path), "t", "bronze")
    file = lock_file(spark, table)
    assert file == str(tmp_path / "_lakelog" / "locks" / "t.bronze")
    order: list[str] = []

    def other() -> None:
        with committing(spark, table):
            order.append("the other thread")

    with held(spark, table), held(spark, table), committing(spark, table):
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.2)
        order.append("this thread")
    thread.join(10)
    assert order == ["this thread", "the other thread"]

    process = holder(file)
    threading.Timer(0.5, process.kill).start()
    began = time.monotonic()
    with held(spark, table):
        assert 0.2 < time.monotonic() - began < 30
    process.wait(10)
    assert os.path.exists(file)


def test_a_writer_that_waits_too_long_is_told_which_lock_it_is(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}])
    before = versions(lake.root, "t")
    file = lock_file(lake.spark, topic.bronze)
    process = holder(str(file))
    monkeypatch.setattr(lock, "PATIENCE", 0.3)
    try:
        with pytest.raises(Conflict, match=f"has held {file} for"):
            topic.append([{"key": "b", "value": "2"}])
        with pytest.raises(Conflict, match=f"has held {file} for"):
            topic.configure({"segment.bytes": 1000})
        with pytest.raises(Conflict, match=f"has held {file} for"):
            lake.delete_topic("t")
        assert versions(lake.root, "t")["bronze"] == before["bronze"]
        # Readers wait for nobody, and other tables are other locks.
        assert topic.read().count() == 1
    finally:
        process.kill()
        process.wait(10)
    lake.create_topic("t2")
    assert lake.delete_topic("t").dry_run is False


def test_a_lock_whose_file_was_deleted_by_hand_is_taken_on_the_new_one(spark: SparkSession, tmp_path: Path) -> None:
    table = TableRef.of(str(tmp_path), "t", "bronze")
    file = Path(str(lock_file(spark, table)))
    process = holder(str(file))
    taken: list[bool] = []

    def wait() -> None:
        with held(spark, table):
            taken.append(os.path.samestat(os.stat(file), os.fstat(lock._locks[str(file)].descriptor or 0)))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    file.unlink()
    thread.join(30)
    assert taken == [True]
    process.kill()
    process.wait(10)


def test_a_folder_that_cannot_be_written_says_so_and_readers_do_not_lock(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}])
    locks = Path(lake.root, "_lakelog", "locks")
    for file in locks.iterdir():
        file.unlink()
    locks.rmdir()
    locks.write_text("in the way")
    before = versions(lake.root, "t")
    with pytest.raises(InvalidRequest, match=r"locks/t.bronze cannot be locked: .*Nothing was written"):
        topic.append([{"key": "b", "value": "2"}])
    assert versions(lake.root, "t") == before
    assert type(lake)(lake.spark, lake.root).sql("SELECT key FROM t_log").collect()[0].key == "a"
    assert (topic.status().records, topic.verify().ok) == (1, True)


def test_a_deleted_topics_locks_stay_and_a_lake_that_is_gone_is_not_made_again(lake: Lake) -> None:
    topic = lake.create_topic("t", key="STRING", value="STRING")
    lake.delete_topic("t")
    assert Path(str(lock_file(lake.spark, topic.bronze))).exists()
    assert not Path(lake.root, "t").exists()
    gone = TableRef.of(lake.root + "-gone", "t", "bronze")
    with held(lake.spark, gone):
        assert not Path(lake.root + "-gone").exists()
