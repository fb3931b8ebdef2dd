"""Spark's Kafka source: where a topic's partitions begin and end, its records between two offsets, and what its errors mean.

Reads are bounded: each is from offsets to offsets, and fails where the broker no longer holds them. Only Spark speaks to the broker, so that what is
reached, and how it is secured, is the same on a laptop, a cluster and Spark Connect.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from lakelog.errors import Conflict, InvalidConfig, LakelogError, NotFound, NotReady

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# As Spark's options spell it.
EARLIEST = -2
ISOLATION = "kafka.isolation.level"
# What Java's messages say of records that the broker no longer holds.
LOST = re.compile(
    r"KAFKA_DATA_LOSS|data may have been lost|OffsetOutOfRangeException|is greater than the end offset|don't match what are assigned",
    re.IGNORECASE,
)
MISSING = re.compile(r"Failed to find (the )?data source:? [`\"']?kafka|DATA_SOURCE_NOT_FOUND|find .*kafka.* data source", re.IGNORECASE)
UNKNOWN = re.compile(r"UnknownTopicOrPartition|does not host this topic-partition|topic[^\n]{0,80} (does not|doesn't) exist", re.IGNORECASE)
DENIED = re.compile(
    r"((?:Sasl|Ssl)AuthenticationException|IllegalSaslStateException|UnsupportedSaslMechanismException"
    r"|(?:Topic|Group|Cluster)AuthorizationException)[: ]*([^\n]{0,200})"
)
UNREACHABLE = re.compile(
    r"(TimeoutException|DisconnectException|NetworkException|Timed out waiting for a node assignment|BrokerNotAvailable|NotLeaderOrFollower"
    r"|LeaderNotAvailable)"
)
# Java does not say why; a name that cannot be resolved, or options that do not go together.
REFUSED = re.compile(r"Failed to (create new KafkaAdminClient|construct kafka (consumer|admin client))", re.IGNORECASE)
UNSOUND = re.compile(r"(ConfigException|No resolvable bootstrap urls|IllegalArgumentException|KafkaException)[: ]*([^\n]{0,200})")


@dataclass(frozen=True)
class Connection:
    """A topic of a Kafka cluster: its bootstrap servers, Spark's options with secrets in them, and these secrets, so that no message tells them."""

    servers: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"kafka://{self.servers}/{self.topic}"

    def settings(self) -> dict[str, str]:
        """The options of any read; records of transactions that were not committed are left out unless they say otherwise."""
        own = {"kafka.bootstrap.servers": self.servers, "includeHeaders": "true", "failOnDataLoss": "true"}
        return {ISOLATION: "read_committed", **self.options, **own}

    def scrubbed(self, text: str) -> str:
        """A text without the secrets."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


class Lost(Conflict):
    """The broker no longer holds offsets that were to be read; who reads knows which, or tries again."""


def ends(spark: SparkSession, connection: Connection) -> dict[int, int]:
    """Partition to its end: the offset behind its last record, or marker of a transaction; with ``read_committed`` behind the last that is decided.

    Raises:
        NotFound: there is no such topic.
        Conflict: the broker does not answer (NETWORK_EXCEPTION).
        NotReady: Spark has no Kafka source.
        InvalidConfig: the settings of the connection are wrong, or the broker denies access.

    Cost: a streaming query that begins at the end, and so reads nothing.
    """
    with door(connection):
        stream = (
            spark.readStream.format("kafka").options(**connection.settings(), subscribe=connection.topic, startingOffsets="latest").load()
        )
        query = stream.select("partition").writeStream.format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
        progress = query.lastProgress
        # In JSON alone it is the same on Spark Connect.
        said = None if progress is None else json.loads(progress.json)["sources"][0]["endOffset"]
    if not said:
        raise Conflict(
            f"{connection}: the broker did not tell where the topic ends. Nothing was written; try again.", name="NETWORK_EXCEPTION"
        )
    found = (json.loads(said) if isinstance(said, str) else said)[connection.topic]
    return {int(index): int(end) for index, end in sorted(found.items(), key=lambda one: int(one[0]))}


def records(spark: SparkSession, connection: Connection, spans: Mapping[int, tuple[int, int]]) -> DataFrame:
    """The records of some partitions from offset to offset (exclusive), with the columns of Spark's Kafka source. Nothing is read yet."""

    def offsets(place: int) -> str:
        return json.dumps({connection.topic: {str(index): span[place] for index, span in sorted(spans.items())}})

    assigned = json.dumps({connection.topic: sorted(spans)})
    with door(connection):
        reader = spark.read.format("kafka").options(**connection.settings(), assign=assigned, startingOffsets=offsets(0))
        return reader.option("endingOffsets", offsets(1)).load()


def firsts(spark: SparkSession, connection: Connection, partitions: Sequence[int], until: Mapping[int, int]) -> dict[int, int]:
    """Partition to the offset of the first record below its end; that end where there is none. Cost: one Spark job, of each a record is read."""
    read = [
        records(spark, connection, {index: (EARLIEST, until[index])}).select("partition", "offset").limit(1)
        for index in partitions
        if until[index] > 0
    ]
    found: dict[int, int] = {}
    if read:
        with door(connection):
            rows = reduce(lambda one, other: one.unionAll(other), read).collect()
        found = {row["partition"]: int(row["offset"]) for row in rows}
    return {index: found.get(index, until[index]) for index in partitions}


def require_held(spark: SparkSession, connection: Connection, partition: int, span: tuple[int, int]) -> None:
    """Look whether the broker's log of a partition reaches back to where a span begins, with or without records there.

    Raises:
        Lost: it begins behind that.

    Cost: one small Spark job.
    """
    with door(connection):
        records(spark, connection, {partition: span}).select("offset").limit(1).collect()


@contextlib.contextmanager
def door(connection: Connection) -> Iterator[None]:
    """Turn what Spark's Kafka source says into lakelog's errors, without the connection's secrets.

    Raises:
        Lost: offsets that were to be read are gone.
    """
    try:
        yield
    except LakelogError as error:
        if any(secret in str(error) for secret in connection.secrets):
            error.args = (connection.scrubbed(str(error)),)
            raise error from None
        raise
    except Exception as error:
        ours = translated(str(error), connection)
        told = any(secret in text for secret in connection.secrets for text in (str(error), str(error.__cause__)))
        if ours is None and not told:
            raise
        if ours is None:
            first = connection.scrubbed(str(error).strip().splitlines()[0][:300])
            ours = InvalidConfig(f"{connection}: the source cannot be read: {first}. Nothing was written. Correct the source's options.")
        raise ours from (None if connection.secrets else error)


def translated(text: str, connection: Connection) -> LakelogError | None:
    """What a message of Spark or Java means; None where it says nothing of Kafka."""
    text = connection.scrubbed(text)
    if LOST.search(text):
        return Lost(f"{connection}: messages were removed while they were read. Nothing was written; try again.")
    if MISSING.search(text):
        return NotReady(
            f"{connection}: Spark has no Kafka source. Start it with spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13 at its own version,"
            " or let lakelog start it (local_session(kafka=True)). Nothing was written."
        )
    if UNKNOWN.search(text):
        return NotFound(
            f"{connection}: there is no such topic, or not all of its partitions. Nothing was written. Correct the topic or bootstrap_servers.",
            name="UNKNOWN_TOPIC_OR_PARTITION",
        )
    if found := DENIED.search(text):
        return InvalidConfig(
            f"{connection}: the broker denies access: {found[2] or found[1]}. Nothing was written. Correct the source's options."
        )
    if UNREACHABLE.search(text):
        return Conflict(f"{connection}: the broker does not answer. Nothing was written; try again when it does.", name="NETWORK_EXCEPTION")
    if REFUSED.search(text):
        return InvalidConfig(
            f"{connection}: Kafka's client refuses its settings: there is no such host, or its options are wrong. Nothing was written. Correct"
            " bootstrap_servers or the source's options."
        )
    if found := UNSOUND.search(text):
        return InvalidConfig(
            f"{connection}: {found[2] or found[1]}. Nothing was written. Correct bootstrap_servers or the source's options."
        )
    return None
