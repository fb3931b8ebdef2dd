"""A night in ten minutes: the job runs every few seconds while messages come, and job and broker are killed with -9 at random."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kafka.broker import Broker, running
from tests.kafka.topics import Message, create, held, truncate
from tests.latest.test_git_history import _history as history
from tests.races.processes import REPOSITORY, environment, kill

if TYPE_CHECKING:
    from lakelog import Lake

KILLS, PAUSE = 20, 3.0
JOB = "import sys\nfrom jobs.append import main\nsys.exit(main(sys.argv[1:]))"


class Producer(threading.Thread):
    """Produces the whole history in its order, each record to two partitions, whatever becomes of the broker meanwhile."""

    def __init__(self, broker: Broker, records: list[dict[str, Any]], seconds: float) -> None:
        super().__init__(daemon=True)
        self.broker, self.records, self.seconds = broker, records, seconds
        self.failed: BaseException | None = None

    def run(self) -> None:
        """Produce; what is not answered is sent again under the same sequence number (idempotence), so that nothing comes twice."""
        from kafka import KafkaProducer

        try:
            producer = KafkaProducer(
                bootstrap_servers=self.broker.address, acks="all", enable_idempotence=True, retries=10**6, delivery_timeout_ms=900_000,
                request_timeout_ms=5_000, max_in_flight_requests_per_connection=1, max_block_ms=900_000,
            )  # fmt: skip
            size = max(len(self.records) // 200, 1)
            for first in range(0, len(self.records), size):
                for number, record in enumerate(self.records[first : first + size], start=first):
                    one = message(record, number)
                    for partition in (0, 1):
                        producer.send("history", key=one.key, value=one.value, partition=partition, timestamp_ms=one.ms)
                time.sleep(self.seconds / 200)
            producer.flush(900)
            producer.close()
        except BaseException as error:
            self.failed = error


def message(record: dict[str, Any], number: int) -> Message:
    value = None if record.get("tombstone") else json.dumps(record["value"]).encode()
    return Message(0, record["key"].encode(), value, 1_700_000_000_000 + number)


def job(lake: Lake, toml: Path) -> subprocess.Popen[str]:
    """The job in a process group of its own, its Java with it."""
    command = [sys.executable, "-c", JOB, "--config", str(toml), "--topic", "history"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=REPOSITORY, start_new_session=True
    )


@pytest.mark.soak
def test_the_log_is_the_topic_whatever_is_killed(lake: Lake, tmp_path: Path) -> None:
    """In the end the log equals the topic offset by offset, and the latest table git's own tree."""
    known, dice = history("requests"), random.Random(7)
    toml = tmp_path / "lakelog.toml"
    topic = lake.create_topic("history", key="STRING", value="commit STRING, blob STRING, mode STRING", partitions=2)
    with running(tmp_path / "broker") as broker:
        create(broker, "history", 2)
        options = '{"kafka.default.api.timeout.ms" = "8000", "kafka.request.timeout.ms" = "4000"}'
        source = f'{{kafka = "history", bootstrap_servers = "{broker.address}", mirror = true, decode = {{value = "json"}}, options = {options}}}'
        toml.write_text(
            f'root = "{lake.root}"\n[session]\nmaster = "local[2]"\nmemory = "1g"\n[topics.history]\nsources = [{source}]\n',
            encoding="utf-8",
        )
        producer = Producer(broker, known.records, seconds=float(os.environ.get("LAKELOG_SOAK_SECONDS", "300")))
        producer.start()
        _cut_off(lake, toml, broker, dice)
        producer.join(1200)
        assert not producer.is_alive() and producer.failed is None, producer.failed
        last = _until_done(lake, toml)
        truth = held(broker, "history", 2)
        assert len(truth) == 2 * len(known.records)
        topic = lake.topic("history")
        assert _log(topic) == {
            place: (key.decode(), None if value is None else json.loads(value), ms) for place, (key, value, ms) in truth.items()
        }
        topic.merge()
        for partition in (0, 1):
            rows = topic.latest().filter(f"_partition = {partition}").select("key", "blob").collect()
            assert {row["key"]: row["blob"] for row in rows} == known.points[-1][1], partition
        assert topic.verify().ok and "SOURCE" not in last

        # The topic is truncated under the job.
        end = max(offset for index, offset in truth if index == 0) + 1
        from kafka import KafkaProducer

        more = KafkaProducer(bootstrap_servers=broker.address, acks="all")
        for _ in range(5):
            more.send("history", key=b"late", value=None, partition=0)
        more.flush()
        more.close()
        truncate(broker, "history", {0: end + 3})
        process = job(lake, toml)
        out, err = process.communicate(timeout=300)
        said = json.loads(out)
        assert (process.returncode, said["error"]) == (4, "SOURCE_TRUNCATED"), (out, err)
        assert f"offsets [{end}, {end + 3}) of partition 0" in said["message"]
        assert len(_log(lake.topic("history"))) == len(truth)


def _cut_off(lake: Lake, toml: Path, broker: Broker, dice: random.Random) -> None:
    """Run the job every few seconds, and kill it or the broker with -9 while it runs, twenty times."""
    killed = {"job": 0, "broker": 0}
    for _ in range(5 * KILLS):
        if sum(killed.values()) >= KILLS and min(killed.values()) >= KILLS // 4:
            break
        process, victim = job(lake, toml), dice.choice(sorted(killed))
        try:
            # Anywhere from the start of Python to the end of the job.
            out, err = process.communicate(timeout=dice.uniform(2, 25))
            assert process.returncode in (0, 75), (out, err)
        except subprocess.TimeoutExpired:
            killed[victim] += 1
            if victim == "broker":
                broker.kill()
                out, err = process.communicate(timeout=300)
                # It had all it needed, or the broker did not answer, which is to be tried again.
                assert process.returncode == 0 or (process.returncode == 75 and "NETWORK_EXCEPTION" in out), (out, err)
                broker.start()
        finally:
            kill(process)
        time.sleep(dice.uniform(0, PAUSE))
    assert sum(killed.values()) >= KILLS and min(killed.values()) >= KILLS // 4, killed
    broker.kill()
    process = job(lake, toml)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 75 and "NETWORK_EXCEPTION" in out, (out, err)
    broker.start()


def _until_done(lake: Lake, toml: Path) -> str:
    """Run the job until it finds nothing new."""
    for _ in range(10):
        process = job(lake, toml)
        out, err = process.communicate(timeout=600)
        assert process.returncode in (0, 75), (out, err)
        if process.returncode == 0 and not json.loads(out)["sources"][0]["batches"]:
            return out
    raise AssertionError("the job does not come to an end")


def _log(topic: Any) -> dict[tuple[int, int], tuple[str, dict[str, Any] | None, int]]:
    from pyspark.sql import functions as F

    rows = topic.read().select("partition", "offset", "key", "value", "tombstone", F.unix_millis("timestamp").alias("ms")).collect()
    found = {
        (row["partition"], row["offset"]): (row["key"], None if row["tombstone"] else row["value"].asDict(), row["ms"]) for row in rows
    }
    assert len(found) == len(rows)
    with contextlib.suppress(AttributeError):
        topic.refresh()
    return found
