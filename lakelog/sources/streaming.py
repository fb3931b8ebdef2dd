"""Batches of a Structured Streaming query into a topic's log, each once: what ``foreachBatch`` calls."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakelog.delta import frames, tables
from lakelog.delta.statement import interpreted
from lakelog.errors import InvalidRequest, Refused
from lakelog.formats.decoding import Decoding
from lakelog.inputs.kafka import KafkaRecords
from lakelog.lake.lake import Lake
from lakelog.log import ledger, withdrawn
from lakelog.log.ledger import Entry, SourceToken
from lakelog.quality import quarantine
from lakelog.topic import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class BatchAppender:
    """Appends each batch of a streaming query to a topic, once, however often the query repeats it: ``writeStream.foreachBatch(BatchAppender(…))``.

    The query's checkpoint gives it an identity, and each batch a number: under both the log remembers the batch for good, in the commit of its records.
    A query with a new checkpoint is another one. It holds plain values alone, so that Spark Connect can send it to its server, where lakelog must be
    installed too.

    Attributes:
        root: the lake.
        topic: the topic.
        checkpoint: the query's ``checkpointLocation``.
        decode: of a Kafka source's frame, by side: json, debezium, avro:FILE. Else the frame is taken as `Topic.append` takes frames.

    Raises, when it is called, what `Topic.append` raises, and Refused (STREAM_REWOUND) where a restore took earlier batches out of the log, which the
    query does not send again: it then stops, and repeats the batch when it is started again.

    Cost: an append for each batch, two small Spark jobs for the identity and what a restore took back, and a row in the log's ledger for good: a
    trigger each minute or ``availableNow``, not each second.
    """

    root: str
    topic: str
    checkpoint: str
    decode: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Append a batch."""
        spark = batch.sparkSession
        entry = Entry(f"batch {number}", 0, "", more={"number": number})
        source = KafkaRecords(batch, Decoding.of(self.decode, "decode"), partitioned=True) if self.decode else batch
        topic, query = Lake(spark, self.root).topic(self.topic), f"stream {query_of(spark, self.checkpoint)}"
        require_not_rewound(topic, query, number)
        topic.append(source, token=SourceToken.of(query, [entry]))


def require_not_rewound(topic: Topic, query: str, number: int) -> None:
    """Refuse a batch while earlier ones lie in the quarantine: a restore took them out of the log, and the query goes on from its own checkpoint.

    Raises:
        Refused: STREAM_REWOUND.

    Cost: one small Spark query; where a restore took batches back, two more.
    """
    aside = withdrawn.entries(topic.log, query)
    missing = rewound(aside, ledger.entries(topic.log, query), number) if aside else {}
    if gone := _in_quarantine(topic, missing):
        named = ", ".join(map(str, gone[:10])) + (f" and {len(gone) - 10} more" if len(gone) > 10 else "")
        raise Refused(
            f"{topic.name}: a restore took what the {query} appended as batch {named} out of the log; the query goes on at batch {number}, and does"
            " not send that again. Nothing was written. Requeue the records (requeue(rule='RESTORED')), or drop them, and start the query again; or"
            " give it a new checkpoint, with which it takes all that its source holds.",
            name="STREAM_REWOUND", expected=gone, actual=number,
        )  # fmt: skip


def _in_quarantine(topic: Topic, missing: Mapping[int, Sequence[Mapping[str, Any]]]) -> list[int]:
    """Which of these batches have records in the quarantine still, neither requeued nor dropped; each with its entries that were put aside."""
    from pyspark.sql import functions as F

    places = [
        (number, int(index), first, end, begun, ended)
        for number, lives in missing.items()
        for entry in lives
        for index, (first, end) in entry["offsets"].items()
        for begun, ended in entry["lives"]
    ]
    log = topic.log
    if not places or not quarantine.exists(log):
        return []
    spans = frames.small_frame(log.spark, "number BIGINT, index INT, first BIGINT, end BIGINT, begun BIGINT, ended BIGINT", places)
    held = quarantine.rows(log).filter(F.col("reason") == quarantine.RESTORED).select("partition", "offset", "epoch")
    same = (F.col("partition") == F.col("index")) & (F.col("offset") >= F.col("first")) & (F.col("offset") < F.col("end"))
    same &= (F.col("epoch") >= F.col("begun")) & (F.col("epoch") < F.col("ended"))
    with tables.door(log.quarantine), interpreted(log.spark):
        return sorted(row["number"] for row in held.join(F.broadcast(spans), same).select("number").distinct().collect())


def rewound(aside: Sequence[Mapping[str, Any]], known: Collection[str], number: int) -> dict[int, list[Mapping[str, Any]]]:
    """Which batches before one a restore took out of the log, by number, each with its entries that were put aside.

    Args:
        aside: the query's entries that were put aside, each time that they were.
        known: the names of those in the ledger.
        number: the batch that is to be appended.
    """
    found: dict[int, list[Mapping[str, Any]]] = {}
    for entry in aside:
        before = int(entry["more"].get("number", entry["name"].removeprefix("batch ")))
        if before < number and entry["name"] not in known:
            found.setdefault(before, []).append(entry)
    return dict(sorted(found.items()))


def query_of(spark: SparkSession, checkpoint: str) -> str:
    """The identity of the query that a checkpoint belongs to.

    Raises:
        InvalidRequest: there is none.
    """
    from pyspark.errors import PySparkException

    try:
        lines = spark.read.text(f"{checkpoint.rstrip('/')}/metadata").collect()
        return str(json.loads("".join(row["value"] for row in lines))["id"])
    except (PySparkException, ValueError, KeyError) as error:
        raise InvalidRequest(
            f"{checkpoint} is no checkpoint of a streaming query: name the one that its option checkpointLocation names. Nothing was written."
        ) from error
