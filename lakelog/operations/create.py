"""A topic's tables: how they come into being.

The log is made first, in one commit that only one creator wins; it says what the topic is. All else follows from it and is made the same by
whoever comes by, so a creation that was cut off is completed by the next.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.delta import table_properties, tables
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION, IDENTITY, PREFIX
from lakelog.errors import Conflict, Damaged, InvalidRequest
from lakelog.latest import evolution, silver, views
from lakelog.latest.progress import LogPlace
from lakelog.log import bronze
from lakelog.log.tail import log_end
from lakelog.model.names import TableRef
from lakelog.model.records import Types
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Says of a log that it was made of an export: silver's version that holds the export's snapshot, and the export's identity.
IMPORTED = f"{PREFIX}topic.imported"


def make_log(spark: SparkSession, root: str, name: str, types: Types, *, partitions: int, settings: Mapping[str, str], now: int) -> bool:
    """Make a topic's log, empty, with what the topic is in its properties: types, partitions, settings, a new identity.

    Returns:
        False when a log of that name is there already, or another creator was first.

    Raises:
        InvalidRequest: a name that the topic needs is taken by what is not lakelog's; nothing was created.
        Conflict: another creator was first, and its log cannot be read yet; or it was cut off before it had one.
    """
    table = TableRef.of(root, name, "bronze")
    if IDENTITY in (table_properties.read(spark, table) or {}):
        return False
    refuse_foreign(spark, root, name)
    properties = {
        FORMAT: str(FORMAT_VERSION),
        IDENTITY: str(uuid.uuid4()),
        f"{PREFIX}topic.partitions": str(partitions),
        f"{PREFIX}topic.types": evolution.types_json(types.key, types.value),
        **{PREFIX + setting: text for setting, text in settings.items()},
    }
    try:
        bronze.create(spark, table, types, partitions=partitions, now=now, properties=properties)
    except Conflict:
        # A path counts as taken from the first data file on, before there is a table.
        table_properties.wait_for(spark, table, IDENTITY)
        return False
    return True


def complete(log: TopicLog, *, now: int) -> None:
    """Make what a topic has beside its log: the latest table and, in a catalog, the views. Again, and nothing changes.

    The latest table of a topic whose deletion was cut off is replaced. One that is gone is made anew only where the log is empty: what a
    log no longer holds would be lost without a word.

    Raises:
        Damaged: the latest table is gone and the log holds records.
        InvalidRequest: there is a table that is not lakelog's.
        Conflict: another process is completing it, or was cut off before there was a table.
    """
    stored = table_properties.read(log.spark, log.silver)
    if is_foreign(log.spark, log.silver, stored):
        raise _taken(str(log.silver), log.name)
    if stored is None or stored.get(IDENTITY) != log.uuid:
        end = log_end(log)
        if any(tail.batch is not None for tail in end.tails.values()):
            raise Damaged(
                f"{log.silver}: the latest table of the topic {log.name} is gone, but its log holds records. Run verify with repair: it"
                " computes it anew."
            )
        places = {index: LogPlace(tail.end, tail.epoch, None) for index, tail in end.tails.items()}
        try:
            silver.create(log, log.silver, places, now=now, replace=stored is not None)
        except Conflict:
            # Whoever else completes it makes it of the same log.
            table_properties.wait_for(log.spark, log.silver, IDENTITY, log.uuid)
    views.create(log.spark, log.name, log.root, log.silver, log.table, log.types)


def imported(stored: Mapping[str, str]) -> tuple[int, str] | None:
    """Of a topic that was made of an export, by its log's properties: silver's version that holds the export's snapshot, and which export."""
    version, _, export = stored.get(IMPORTED, "").partition(" ")
    return (int(version), export) if export else None


def topic_tables(root: str, name: str) -> tuple[TableRef, TableRef]:
    """The log and the latest table."""
    return TableRef.of(root, name, "bronze"), TableRef.of(root, name, "silver")


def is_foreign(spark: SparkSession, table: TableRef, stored: Mapping[str, str] | None) -> bool:
    """Whether a table that is there, by its properties, is no topic's; nor one that a writer of lakelog made in the place of a deleted one."""
    if stored is None or IDENTITY in stored:
        return False
    return '"lakelog' not in (tables.history(spark, table, 1)[0]["userMetadata"] or "")


def refuse_foreign(spark: SparkSession, root: str, name: str) -> None:
    """Refuse to create a topic over what is not lakelog's: the tables and views of a schema are everybody's."""
    taken = [str(table) for table in topic_tables(root, name) if is_foreign(spark, table, table_properties.read(spark, table))]
    if "/" not in root:
        taken += [view for view in views.names(name) if spark.catalog.tableExists(f"{root}.{view}")]
    if taken:
        raise _taken(taken[0], name)


def _taken(what: str, name: str) -> InvalidRequest:
    return InvalidRequest(
        f"{what} is there already and is not lakelog's: the topic {name} needs that name. Choose another name for the topic. Nothing was"
        " created.", name="TOPIC_ALREADY_EXISTS",
    )  # fmt: skip
