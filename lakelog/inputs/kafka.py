"""Messages of Kafka, a frame of Spark's Kafka source, as a request: decoded, each known by its partition and offset there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.errors import InvalidRequest
from lakelog.formats.decoding import Decoding
from lakelog.inputs.request import Request, Requesting
from lakelog.model.mirroring import Mirrored
from lakelog.model.records import HEADERS, Types, first_problem, from_ms, timestamp_problem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


@dataclass(frozen=True)
class KafkaRecords(Requesting):
    """Messages as an append takes them.

    ``frame``: with the columns of Spark's Kafka source. ``decoding``: how key and value become those of the topic. ``partitioned``: they go to the
    partitions that they have; else where the hash of their key says. ``mirrored``: they keep partition, offset and timestamp.
    """

    frame: DataFrame
    decoding: Decoding = Decoding()
    partitioned: bool = False
    mirrored: Mirrored | None = None

    def request(self, types: Types, *, raw: bool = False) -> Request:
        """The request; nothing is read yet.

        Raises:
            InvalidRequest: columns of Spark's Kafka source are missing, or octets cannot be of a declared type as they are.
        """
        from pyspark.sql import functions as F

        missing = [name for name in COLUMNS if name not in self.frame.columns]
        if missing:
            raise InvalidRequest(f"The frame has no column {', '.join(missing)}: messages have those of Spark's Kafka source.")
        rows = self.frame.withColumn("row_order", F.monotonically_increasing_id())
        rows, key = self.decoding.side(rows, "key", types.key)
        rows, value = self.decoding.side(rows, "value", types.value)
        stamp, wrong = F.col("timestamp"), timestamp_problem(F.lit(None).cast("string"), F.unix_millis("timestamp"))
        if value.ms is not None and self.mirrored is None:
            stamp, wrong = F.coalesce(from_ms(value.ms), stamp), timestamp_problem(F.lit(None).cast("string"), value.ms)
        said = F.coalesce(F.concat(F.lit("INVALID_RECORD\t"), first_problem([key.problem, value.problem])), wrong)
        headers = F.col("headers") if "headers" in self.frame.columns else F.lit(None).cast(HEADERS)
        kept = F.col("partition") if self.partitioned or self.mirrored is not None else F.lit(None).cast("int")
        flag = F.lit(False) if value.deleted is None else value.deleted
        wanted = rows.select(
            F.concat_ws("-", "topic", "partition").alias("src"), F.lit(0).cast("bigint").alias("block"), F.col("offset").alias("line"), "row_order",
            kept.alias("partition"), key.value.alias("key"), value.value.alias("value"), headers.cast(HEADERS).alias("headers"),
            stamp.alias("timestamp"), flag.alias("tombstone"), F.lit(None).cast("bigint").alias("expected_offset"), said.alias("problem"),
            (F.when(said.isNotNull(), _message()) if raw else F.lit(None).cast("string")).alias("raw"),
        )  # fmt: skip
        return Request(wanted, offsets=True, mirrored=self.mirrored)


def _message() -> Column:
    """A message as JSON, for who looks at what cannot be decoded: octets as text where they are some, else in hexadecimal."""
    from pyspark.sql import functions as F

    def shown(side: str) -> Column:
        text = F.col(side).cast("string")
        return F.coalesce(F.when(F.is_valid_utf8(text), text), F.concat(F.lit("hex "), F.hex(side))).alias(side)

    return F.to_json(F.struct("topic", "partition", "offset", F.unix_millis("timestamp").alias("timestamp"), shown("key"), shown("value")))
