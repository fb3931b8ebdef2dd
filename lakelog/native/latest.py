"""The latest table without a JVM: how far it is, its rows as people see them, where the topic stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.delta import table_properties
from lakelog.errors import Damaged, NotFound
from lakelog.latest.control_rows import CONTROL_BUCKET, has_control
from lakelog.latest.progress import REBUILD, Progress, from_control_rows, not_as_left, noted_progress, own
from lakelog.model.kinds import Kind, struct
from lakelog.model.names import TableRef
from lakelog.model.records import flat_columns
from lakelog.model.topic_log import TopicLog
from lakelog.native.rows import Rows
from lakelog.native.shapes import shaped
from lakelog.native.table import Table
from lakelog.quality import verdicts
from lakelog.quality_results import PASSED

if TYPE_CHECKING:
    import pyarrow

# How a row's own columns are shown.
SHOWN = {"_partition": "partition", "_offset": "offset", "_timestamp": "timestamp", "_version": "version"}


def opened(ref: TableRef) -> Table:
    """Silver at its newest version.

    Raises:
        Damaged: there is none.
    """
    try:
        return Table(ref)
    except NotFound as error:
        raise Damaged(f"{ref}: the latest table is gone. {REBUILD}") from error


def progress(table: Table, topic: TopicLog) -> Progress:
    """How far silver is, by its newest commit; by its control rows where that is not a merge.

    Raises:
        Damaged: it is another log's, or its control rows are not as merges leave them.
    """
    newest = table.history(1)[0]
    found = noted_progress(newest)  # type: ignore[arg-type]
    if found is None:
        found = from_control_rows(table.ref, control_rows(table), table.version)  # type: ignore[arg-type]
    return own(topic, found)


def control_rows(table: Table) -> list[dict[str, Any]]:
    """The control rows of a state of silver."""
    query = f'SELECT partition, "offset", epoch, control FROM t WHERE bucket = {CONTROL_BUCKET}'
    return table.records(query) if has_control(table.schema.names) else []


def held(table: Table, now: int) -> tuple[dict[bool, int], int]:
    """How many rows silver holds, by their tombstone flag, and how many of the tombstones are at their delete horizon."""
    due = f"sum(CASE WHEN arrow_cast(delete_horizon, 'Int64') <= {1000 * now} THEN 1 ELSE 0 END)"
    rows = table.records(
        f"SELECT tombstone, count(*) AS n, {due} AS due FROM t WHERE bucket > {CONTROL_BUCKET} AND control IS NULL GROUP BY tombstone"
    )
    return {row["tombstone"]: row["n"] for row in rows}, sum(row["due"] or 0 for row in rows)


def last_verdict(root: str, uuid: str) -> tuple[dict[str, Any] | None, int | None]:
    """As `quality.verdicts.last`, of the newest verdict what a status tells."""
    ref = verdicts.table_of(root)
    try:
        table = Table(ref)
    except NotFound:
        return None, None
    table_properties.require_readable(str(ref), table.properties)
    runs = f"FROM t WHERE rule IS NULL AND uuid = '{uuid}'"
    newest = table.records(f"SELECT {', '.join(verdicts.SAID)} {runs} ORDER BY at DESC LIMIT 1")
    good = table.records(f"SELECT max(version) AS version {runs} AND door = 'table' AND outcome = '{PASSED}'")
    return next(iter(newest), None), good[0]["version"]


def shown(table: Table, key: Kind, value: Kind, *, deleted: bool) -> Rows:
    """Silver's live rows, or its tombstones, as people see them: struct keys and values flattened, values in the type that the topic has now."""
    have, flat = table.schema, flat_columns(key, value)  # type: ignore[arg-type]
    if not has_control(have.names):
        raise not_as_left(table.ref)
    sides = {"key": key, "value": value}
    places = {name: f'"{column}"' for name, column in SHOWN.items()}
    # A field that was added since is NULL in every row: it orders nothing.
    places |= {name: _place(side, field) for name, side, field in flat if not field or field in have[side].dataType.names}

    def kind_of(side: str, field: str) -> Kind:
        return sides[side][field].dataType if field else sides[side]

    def read(ordered: Sequence[str], most: int | None) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        by = ", ".join(f"{places[name]} ASC NULLS FIRST" for name in ordered if name in places)
        query = (
            f'SELECT key, value, partition, "offset", timestamp, version FROM t WHERE bucket > {CONTROL_BUCKET} AND control IS NULL'
            f" AND {'' if deleted else 'NOT '}tombstone{f' ORDER BY {by}' if by else ''}{'' if most is None else f' LIMIT {most}'}"
        )
        for batch in table.batches(query):
            columns = {side: shaped(batch.column(side), have[side].dataType, kind) for side, kind in sides.items()}
            # Flattened, a field is NULL where the whole is.
            arrays = [columns[side].flatten()[sides[side].names.index(field)] if field else columns[side] for _, side, field in flat]
            names = [name for name, _, _ in flat]
            yield pyarrow.RecordBatch.from_arrays([*arrays, *(batch.column(name) for name in SHOWN.values())], names=[*names, *SHOWN])

    kinds = [(name, kind_of(side, field)) for name, side, field in flat]
    return Rows(struct([*kinds, *((name, have[column].dataType) for name, column in SHOWN.items())]), read)


def _place(side: str, field: str) -> str:
    """A key or value, or a field of it, in DataFusion's SQL."""
    return f"get_field({side}, '{field.replace(chr(39), chr(39) * 2)}')" if field else side
