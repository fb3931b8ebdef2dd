"""Batches of a Structured Streaming query into a topic's log, each once: what ``foreachBatch`` calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakelog.errors import InvalidRequest
from lakelog.formats.decoding import Decoding
from lakelog.inputs.kafka import KafkaRecords
from lakelog.lake.lake import Lake
from lakelog.log.ledger import Entry, SourceToken

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

    Raises, when it is called, what `Topic.append` raises: the query then stops, and repeats the batch when it is started again.

    Cost: an append for each batch, one small Spark job for the identity, and a row in the log's ledger for good: a trigger each minute or
    ``availableNow``, not each second.
    """

    root: str
    topic: str
    checkpoint: str
    decode: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Append a batch."""
        spark = batch.sparkSession
        entry = Entry(f"batch {number}", 0, "")
        source = KafkaRecords(batch, Decoding.of(self.decode, "decode"), partitioned=True) if self.decode else batch
        Lake(spark, self.root).topic(self.topic).append(source, token=SourceToken.of(f"stream {query_of(spark, self.checkpoint)}", [entry]))


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
