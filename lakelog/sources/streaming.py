"""Batches of a Structured Streaming query into a topic's log, each once: what ``foreachBatch`` calls."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
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

    Cost: one small Spark query; where a restore took batches back, one more, and one for each of those that are not in the log again.
    """
    aside = withdrawn.entries(topic.log, query)
    missing = rewound(aside, ledger.entries(topic.log, query), number) if aside else {}
    gone = [one for one, lives in missing.items() if any(_is_aside(topic, entry) for entry in lives)]
    if gone:
        named = ", ".join(map(str, gone[:10])) + (f" and {len(gone) - 10} more" if len(gone) > 10 else "")
        raise Refused(
            f"{topic.name}: a restore took what the {query} appended as batch {named} out of the log; the query goes on at batch {number}, and does"
            " not send that again. Nothing was written. Requeue the records (requeue(rule='RESTORED')), or drop them, and start the query again; or"
            " give it a new checkpoint, with which it takes all that its source holds.",
            name="STREAM_REWOUND", expected=gone, actual=number,
        )  # fmt: skip


def _is_aside(topic: Topic, entry: Mapping[str, Any]) -> bool:
    """Whether records of an entry that was put aside are in the quarantine still: neither requeued nor dropped."""
    from pyspark.sql import functions as F

    here = F.lit(False)
    for index, (first, end) in entry["offsets"].items():
        for begun, ended in entry["lives"]:
            place = (F.col("partition") == int(index)) & (F.col("offset") >= first) & (F.col("offset") < end)
            here |= place & (F.col("epoch") >= begun) & (F.col("epoch") < ended)
    held = quarantine.rows(topic.log).filter((F.col("reason") == quarantine.RESTORED) & here)
    with tables.door(topic.log.quarantine), interpreted(topic.log.spark):
        return bool(held.limit(1).count())


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
