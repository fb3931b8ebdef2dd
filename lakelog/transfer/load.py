"""An exported topic made a topic again, under any root and name: offsets, epochs, rows and settings as they were; a new identity."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lakelog.delta import table_properties, tables
from lakelog.delta.lock import held
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION, IDENTITY, PARTITIONS, PREFIX, TYPES
from lakelog.errors import Damaged, InvalidRequest
from lakelog.latest import erased, silver
from lakelog.latest.erased import Erasure
from lakelog.latest.progress import Mark, Progress
from lakelog.log import bronze
from lakelog.log.rows import schema
from lakelog.model import config
from lakelog.model.config import TopicConfig
from lakelog.model.log_state import PartitionState
from lakelog.model.names import TableRef
from lakelog.model.ordering import OrderingRule
from lakelog.model.records import Types
from lakelog.model.topic_log import TopicLog
from lakelog.operations import create
from lakelog.transfer import manifest
from lakelog.transfer.manifest import LOG, SILVER, Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load(spark: SparkSession, root: str, name: str, directory: str, said: Manifest, defaults: Mapping[str, str], *, now: int) -> None:
    """Make the tables of a topic from an export: silver first, then, in one commit, the log, by which there is a topic of that name.

    Cut off before the log is there, the next call begins anew. Of two imports at once one makes the log; where no lock keeps them apart, the
    other may have replaced its latest table, which whoever completes the topic, or is told of the conflict, brings back (`create.bring_back`).
    Keys of the exported topic that this lake has erased since are left out.

    Args:
        spark: the session.
        root: of the lake.
        name: of the topic.
        directory: the export.
        said: its manifest.
        defaults: the lake's settings.
        now: the time in milliseconds.

    Raises:
        InvalidRequest: there is a topic of that name.
        Damaged: files are missing or changed. Nothing was imported.
        Conflict: another process makes a topic of that name.

    Cost: every file is read twice, once for its checksum; both tables are written once.
    """
    manifest.check(directory, said)
    table = TableRef.of(root, name, "bronze")
    # Where tables have locks, a second import of that name waits here until there is a log, and changes nothing.
    with held(spark, table, creating=True):
        create.refuse_foreign(spark, root, name)
        if table_properties.read(spark, table) is not None:
            raise InvalidRequest(f"The topic {name} exists already in {root}. Import under another name.", name="TOPIC_ALREADY_EXISTS")
        log = _log(spark, root, name, said, defaults)
        gone = erased.entries(spark, root, said.uuid)
        state = _progress(said, log.uuid)
        version = _latest(log, directory, said, state, gone, now=now)
        states = {
            int(index): _state(int(index), one, state.next[int(index)], log.uuid, holes=bool(gone)) for index, one in said.states.items()
        }
        records = spark.read.schema(schema(log.types)).parquet(f"{directory.rstrip('/')}/{LOG}")
        records = erased.without(records, said.uuid, gone)
        properties = {**_properties(said, log.uuid), create.IMPORTED: f"{version} {said.identity}"}
        bronze.create(
            spark, table, log.types, partitions=said.partitions, now=now, properties=properties, states=states,
            rows=_renumbered(log, records, said.version),
        )  # fmt: skip


def _latest(log: TopicLog, directory: str, said: Manifest, state: Progress, gone: Sequence[Erasure], *, now: int) -> int:
    """Make silver, in the place of one that an import that was cut off left. Returns its version."""
    whole = silver.schema(log.types.key, log.types.value, log.rule.version_type(log.types.value))
    # Of an export without the column ``control``, from before remembered versions were in it, that reads as NULL.
    latest = log.spark.read.schema(whole).parquet(f"{directory.rstrip('/')}/{SILVER}")
    rows = erased.without(latest, said.uuid, gone).unionAll(silver.control_frame(log, state, now))
    stands = table_properties.read(log.spark, log.silver) is not None
    return tables.create(
        rows, log.silver, partitioned_by=("bucket",), properties=silver.table_settings(log), replace=stands, user_metadata=state.note()
    )


def _log(spark: SparkSession, root: str, name: str, said: Manifest, defaults: Mapping[str, str]) -> TopicLog:
    from pyspark.sql.types import StructType

    sides = StructType.fromJson(json.loads(said.types))
    types = Types(sides["key"].dataType, sides["value"].dataType)
    settings = TopicConfig({one: text for one, text in said.settings.items() if one in config.SETTINGS}, defaults)
    settings.check()
    rule = OrderingRule.from_config(settings)
    if rule.to_json() != said.rule:
        raise Damaged(f"{manifest.NAME}: its settings make the rule {rule}, its rows were made under another. Nothing was imported.")
    bronze_table, silver_table = create.topic_tables(root, name)
    return TopicLog(name, root, str(uuid.uuid4()), spark, bronze_table, silver_table, types, said.partitions, settings, rule)


def _properties(said: Manifest, identity: str) -> dict[str, str]:
    return {
        FORMAT: str(FORMAT_VERSION), IDENTITY: identity, PARTITIONS: str(said.partitions), TYPES: said.types,
        **{PREFIX + name: text for name, text in said.settings.items()},
    }  # fmt: skip


def _progress(said: Manifest, identity: str) -> Progress:
    """Silver's control rows, of the topic as it is called now."""
    marks = {}
    for index, (offset, epoch, control) in said.marks.items():
        marks[int(index)] = Mark(offset, epoch, json.dumps({**json.loads(control), "topic": identity}, sort_keys=True))
    return Progress(marks)


def _state(partition: int, said: Mapping[str, object], start: int, identity: str, *, holes: bool) -> PartitionState:
    """A partition's state: its log begins at the snapshot's end. With ``holes`` records may be missing anywhere: those of keys that were erased
    here. An export of before does not say how far its log was cleaned: then that may be anywhere too."""
    number: Callable[[str], int] = lambda name: int(str(said[name]))  # noqa: E731
    epochs = tuple((int(one[0]), int(one[1])) for one in list(said["epochs"]))  # type: ignore[call-overload]
    deletes_from = max(number("deletes_from"), start)
    cleaned = number("cleaned") if "cleaned" in said and not holes else number("end")
    return PartitionState(
        partition, 1, identity, number("epoch"), epochs, number("origin"), start, max(start, cleaned),
        max(deletes_from, number("end")) if holes else deletes_from, forgotten=int(str(said.get("forgotten", 0))),
    )  # fmt: skip


def _renumbered(log: TopicLog, rows: DataFrame, version: int) -> DataFrame:
    """Bronze's rows, whose batch rows name versions of the old table: those are before all of the new one's, in the same order."""
    from pyspark.sql import functions as F

    after = F.get_json_object("control", "$.after").cast("bigint") - F.lit(version + 2)
    told = F.regexp_replace("control", F.lit(r'"after": -?\d+'), F.concat(F.lit('"after": '), after.cast("string")))
    control = F.when(F.col("control").isNotNull(), told).alias("control")
    return rows.select(*[control if name == "control" else F.col(name) for name in schema(log.types).names])
