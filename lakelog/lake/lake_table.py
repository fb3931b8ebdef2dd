"""A lake's own table: what makes a root a lake. Its rows are runs and their leases (``verb``: run, lease); its properties hold the lake's
defaults and list its topics.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.delta import frames, table_properties, tables
from lakelog.delta.filesystem import names_in
from lakelog.delta.table_properties import FORMAT, FORMAT_VERSION, PREFIX
from lakelog.errors import Conflict, InvalidRequest, NotFound
from lakelog.model.config import SETTINGS
from lakelog.model.names import TableRef, quoted
from lakelog.native.topic import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTED = f"{PREFIX}lake.topic."
RUNS = "started_at TIMESTAMP, ended_at TIMESTAMP, run_id STRING, verb STRING, topic STRING, error STRING, report STRING"


@dataclass(frozen=True)
class LakeTable:
    """The table of a root: a path or a catalog schema; ``read`` reads a table's properties where there is no session."""

    session: SparkSession | None
    root: str
    read: Callable[[TableRef], dict[str, str] | None] | None = None

    @property
    def spark(self) -> SparkSession:
        """The session.

        Raises:
            NotReady: there is none.
        """
        if self.session is None:
            raise needs_spark("This verb", self.root)
        return self.session

    @property
    def table(self) -> TableRef:
        """Where it is."""
        return TableRef.of(self.root, "_lakelog", "runs")

    def _stored(self) -> dict[str, str] | None:
        """The table's properties."""
        return self.read(self.table) if self.read else table_properties.read(self.spark, self.table)

    def properties(self) -> dict[str, str] | None:
        """What it holds; None where the root is no lake. No Spark job.

        Raises:
            InvalidConfig: a newer lakelog wrote it.
            Damaged: its format is no number.
        """
        stored = self._stored()
        if stored is None or FORMAT not in stored:
            return None
        table_properties.require_readable(self.root, stored, self.table)
        return stored

    def opened(self) -> dict[str, str]:
        """`properties` of a lake.

        Raises:
            NotFound: the root is not one.
        """
        stored = self.properties()
        if stored is None:
            raise NotFound(f"{self.root} is not a lake: there is no table {self.table}. create_topic makes it one.", name="NOT_A_LAKE")
        return stored

    def topics(self) -> dict[str, str]:
        """The topics that are listed, by name: their identities; else as `opened`."""
        stored = self.opened()
        return {name.removeprefix(LISTED): identity for name, identity in sorted(stored.items()) if name.startswith(LISTED)}

    def defaults(self) -> dict[str, str]:
        """The lake-wide defaults that were set, under their broker names. No Spark job.

        Raises:
            Damaged: one of them is no value of its setting.
        """
        known = {setting.lake_name: setting for setting in SETTINGS.values()}
        return table_properties.settings(self.table, self._stored() or {}, known)

    def set_defaults(self, defaults: Mapping[str, str | None]) -> None:
        """Set defaults, or remove those given as None; one commit, or two."""
        table_properties.change(self.spark, self.table, {PREFIX + name: text for name, text in defaults.items()})

    def list_topic(self, name: str, identity: str | None) -> None:
        """List a topic, or take it off the list; another writer's change at the same time is no reason to fail."""
        for attempt in range(20):
            try:
                return table_properties.change(self.spark, self.table, {LISTED + name: identity})
            except Conflict:
                if attempt == 19:
                    raise
                logging.getLogger("lakelog").warning("%s: another writer changed the list of topics; try %d of 20", self.root, attempt + 2)
                time.sleep(0.1 * attempt)
        return None

    def is_listed(self, name: str, identity: str) -> bool:
        """Whether a topic that another process is creating comes to be listed in a few seconds."""
        return table_properties.appears(self.spark, self.table, LISTED + name, identity)

    def create(self) -> None:
        """Make the root a lake; of several at the same time one does.

        Raises:
            InvalidRequest: the folder holds something else.
            NotFound: there is no such schema.
            Conflict: another process is at it, and takes too long.
        """
        if "/" in self.root:
            self._refuse_foreign_files()
        else:
            with tables.door(self.root):
                schemas = self.spark.sql("SHOW SCHEMAS" + (f" IN {quoted(self.root.split('.')[0])}" if "." in self.root else "")).collect()
            if self.root.split(".")[-1] not in {row[0] for row in schemas}:
                raise NotFound(f"There is no schema {self.root}. Create it first: CREATE SCHEMA {self.root}", name="NOT_A_LAKE")
        try:
            tables.create(frames.small_frame(self.spark, RUNS, []), self.table, properties={FORMAT: str(FORMAT_VERSION)})
        except Conflict:
            table_properties.wait_for(self.spark, self.table, FORMAT)

    def _refuse_foreign_files(self) -> None:
        # A first topic whose creation was cut off, or is under way, left nothing else.
        found = [name for name in names_in(self.spark, self.root) if not name.startswith(".") and name != "_lakelog"]
        # Another process may have made the lake since we looked.
        if found and self.properties() is None:
            raise InvalidRequest(
                f"{self.root} is not a lake and not empty (it holds {sorted(found)[0]}). Name a new or empty folder as root.",
                name="NOT_A_LAKE",
            )
