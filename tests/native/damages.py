"""What can have happened to the files of a topic behind lakelog's back, each by the files alone or by another writer (delta-rs)."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from lakelog.model.names import TableRef

Damage = Callable[[Path, Path], None]


def commits(table: Path) -> list[Path]:
    return sorted((table / "_delta_log").glob("*.json"))


def rewritten(table: Path, old: str, new: str) -> None:
    """Put other words into all commits of a table; without the checksums by which Spark would notice."""
    assert any(old in file.read_text() for file in commits(table)), f"{table} does not hold {old}"
    for file in commits(table):
        file.write_text(file.read_text().replace(old, new))
    for file in (table / "_delta_log").glob("*.crc"):
        file.unlink()
    for file in (table / "_delta_log").glob(".*.crc"):
        file.unlink()


def garbage(table: Path) -> None:
    """Break the newest commit; without the checksums from which Spark has what the topic is."""
    commits(table)[-1].write_text("{garbage")
    for file in (table / "_delta_log").glob("*.crc"):
        file.unlink()


def data_files(table: Path) -> list[Path]:
    return sorted(file for file in table.rglob("*.parquet") if "_delta_log" not in file.parts)


def rows_like(table: Path, **values: object) -> None:
    """Append a copy of a row to a table, with other values, as a writer that does not know lakelog would."""
    import pyarrow
    from deltalake import DeltaTable, write_deltalake

    known = DeltaTable(str(table))
    schema = pyarrow.schema(known.schema().to_arrow())
    made = {field.name: pyarrow.array([values.get(field.name)], field.type) for field in schema}
    write_deltalake(known, pyarrow.table(made), mode="append")


def deleted(table: Path, where: str) -> None:
    from deltalake import DeltaTable

    DeltaTable(str(table)).delete(where)


def restored(table: Path, version: int) -> None:
    from deltalake import DeltaTable

    DeltaTable(str(table)).restore(version)


def updated(table: Path, where: str, **values: str) -> None:
    """Put other values, in SQL, into rows of a table."""
    from deltalake import DeltaTable

    DeltaTable(str(table)).update(updates=values, predicate=where)


def configured(table: Path, name: str, text: str | None) -> None:
    """Give a table another property, or (None) take it away; without the checksums by which Spark would notice."""
    for file in commits(table):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            if "metaData" in line:
                kept = line["metaData"]["configuration"]
                kept.pop(name, None)
                kept.update({} if text is None else {name: text})
        file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    for file in (table / "_delta_log").glob("*.crc"):
        file.unlink()


def identity(table: Path) -> str:
    from deltalake import DeltaTable

    return str(DeltaTable(str(table)).metadata().configuration["lakelog.topic.uuid"])


def plain(table: Path) -> None:
    """Put a table that is none of lakelog's in the place of one."""
    import pyarrow
    from deltalake import write_deltalake

    shutil.rmtree(table)
    write_deltalake(str(table), pyarrow.table({"id": [1, 2]}))


def restored_to_now(table: Path) -> None:
    """RESTORE a table to the time of its newest commit, as by hand: what was done before stays as it is."""
    from deltalake import DeltaTable

    at = datetime.datetime.fromtimestamp(commits(table)[-1].stat().st_mtime + 0.002, tz=datetime.timezone.utc)
    time.sleep(0.02)
    DeltaTable(str(table)).alter.set_table_properties({"a.user": "was here"}, raise_if_not_exists=False)
    DeltaTable(str(table)).restore(at)


def compacted(table: Path) -> None:
    from deltalake import DeltaTable

    DeltaTable(str(table)).optimize.compact()


def version_of(table: Path) -> int:
    return int(commits(table)[-1].stem)


def _of(lake: Path, topic: Path) -> Path:
    return lake / "_lakelog" / "runs"


DAMAGES: dict[str, Damage] = {
    "silver-gone": lambda lake, topic: shutil.rmtree(topic / "silver"),
    "silver-log-gone": lambda lake, topic: shutil.rmtree(topic / "silver" / "_delta_log"),
    "silver-control-rows-deleted": lambda lake, topic: deleted(topic / "silver", "bucket = -1"),
    "silver-all-deleted": lambda lake, topic: deleted(topic / "silver", "partition >= 0"),
    "silver-control-row-twice": lambda lake, topic: rows_like(topic / "silver", bucket=-1, partition=0, offset=5, epoch=0, control="{}"),
    "silver-foreign-row": lambda lake, topic: rows_like(topic / "silver", bucket=0, partition=0, offset=5, epoch=0, tombstone=False),
    "silver-restored": lambda lake, topic: restored(topic / "silver", 0),
    "silver-compacted": lambda lake, topic: compacted(topic / "silver"),
    "silver-files-gone": lambda lake, topic: [file.unlink() for file in data_files(topic / "silver")],
    "silver-files-cut": lambda lake, topic: [file.write_bytes(file.read_bytes()[:40]) for file in data_files(topic / "silver")],
    "silver-commit-garbage": lambda lake, topic: garbage(topic / "silver"),
    "bronze-foreign-row": lambda lake, topic: rows_like(topic / "bronze", partition=0, segment=0, offset=10_000, tombstone=False),
    "bronze-rows-deleted": lambda lake, topic: deleted(topic / "bronze", '"offset" = 1'),
    "bronze-state-deleted": lambda lake, topic: deleted(topic / "bronze", "segment = -1"),
    "bronze-restored": lambda lake, topic: restored(topic / "bronze", version_of(topic / "bronze") - 1),
    "bronze-compacted": lambda lake, topic: compacted(topic / "bronze"),
    "bronze-files-gone": lambda lake, topic: [file.unlink() for file in data_files(topic / "bronze")],
    "bronze-files-cut": lambda lake, topic: [file.write_bytes(b"PAR1") for file in data_files(topic / "bronze")],
    "bronze-commit-garbage": lambda lake, topic: garbage(topic / "bronze"),
    "bronze-first-commit-gone": lambda lake, topic: commits(topic / "bronze")[0].unlink(),
    "bronze-log-empty": lambda lake, topic: [file.unlink() for file in (topic / "bronze" / "_delta_log").iterdir() if file.is_file()],
    "bronze-gone": lambda lake, topic: shutil.rmtree(topic / "bronze"),
    "bronze-without-identity": lambda lake, topic: rewritten(topic / "bronze", "lakelog.topic.uuid", "lakelog.topic.other"),
    "bronze-other-identity": lambda lake, topic: rewritten(topic / "bronze", 'lakelog.topic.uuid":"', 'lakelog.topic.uuid":"x'),
    "bronze-newer-format": lambda lake, topic: rewritten(topic / "bronze", '"lakelog.format":"2"', '"lakelog.format":"9"'),
    "lake-newer-format": lambda lake, topic: rewritten(_of(lake, topic), '"lakelog.format":"2"', '"lakelog.format":"9"'),
    "lake-without-format": lambda lake, topic: rewritten(_of(lake, topic), "lakelog.format", "lakelog.other"),
    "lake-gone": lambda lake, topic: shutil.rmtree(lake / "_lakelog"),
    "lake-commit-garbage": lambda lake, topic: garbage(_of(lake, topic)),
    "topic-gone": lambda lake, topic: shutil.rmtree(topic),
}  # fmt: skip

# What lakelog wrote, and somebody else changed so that it cannot be read: of the latest table, and of the properties.
UNREADABLE: dict[str, Damage] = {
    "silver-control-garbage": lambda lake, topic: updated(topic / "silver", "bucket = -1", control="'{bad'"),
    "silver-control-null": lambda lake, topic: updated(topic / "silver", "bucket = -1", control="NULL"),
    "silver-control-empty": lambda lake, topic: updated(topic / "silver", "bucket = -1", control="'{}'"),
    "silver-control-offset-null": lambda lake, topic: updated(topic / "silver", "bucket = -1", offset="NULL"),
    "silver-control-row-gone": lambda lake, topic: deleted(topic / "silver", "bucket = -1 AND partition = 1"),
    "silver-control-row-moved": lambda lake, topic: updated(topic / "silver", "bucket = -1 AND partition = 1", partition="7"),
    "silver-of-another-topic": lambda lake, topic: updated(
        topic / "silver", "bucket = -1", control=f"replace(control, '{identity(topic / 'bronze')}', 'another')"
    ),
    "silver-plain-table": lambda lake, topic: plain(topic / "silver"),
    "types-broken": lambda lake, topic: configured(topic / "bronze", "lakelog.topic.types", "{x"),
    "types-without-key": lambda lake, topic: configured(topic / "bronze", "lakelog.topic.types", '{"type":"struct","fields":[]}'),
    "types-missing": lambda lake, topic: configured(topic / "bronze", "lakelog.topic.types", None),
    "partitions-broken": lambda lake, topic: configured(topic / "bronze", "lakelog.topic.partitions", "x"),
    "setting-broken": lambda lake, topic: configured(topic / "bronze", "lakelog.segment.ms", "abc"),
    "strategy-unknown": lambda lake, topic: configured(topic / "bronze", "lakelog.compaction.strategy", "nonsense"),
    "format-broken": lambda lake, topic: configured(topic / "bronze", "lakelog.format", "abc"),
    "lake-format-broken": lambda lake, topic: configured(_of(lake, topic), "lakelog.format", "abc"),
    "lake-setting-broken": lambda lake, topic: configured(_of(lake, topic), "lakelog.log.roll.ms", "abc"),
}


def part(source: Path, target: Path, *topics: str) -> Path:
    """A copy of a lake with these topics alone."""
    target.mkdir(parents=True)
    for name in ("_lakelog", *topics):
        shutil.copytree(source / name, target / name)
    for file in commits(target / "_lakelog" / "runs"):
        lines = []
        for line in file.read_text().splitlines():
            found = json.loads(line)
            if "metaData" in found:
                kept = found["metaData"]["configuration"]
                found["metaData"]["configuration"] = {
                    name: text for name, text in kept.items() if not name.startswith("lakelog.lake.topic.") or name.split(".")[-1] in topics
                }
            lines.append(json.dumps(found, separators=(",", ":")))
        file.write_text("\n".join(lines) + "\n")
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    for file in (target / "_lakelog" / "runs" / "_delta_log").glob("*.crc"):
        file.unlink()
    return target


def damaged(source: Path, target: Path, topic: str, damage: str) -> Path:
    """A copy of a lake with this topic alone, damaged."""
    part(source, target, topic)
    DAMAGES[damage](target, target / topic)
    return target


def three_versions(folder: Path) -> TableRef:
    """Three versions, of three days ago, two days ago and now, each without the rows of the one before; removed files are kept for a day."""
    import pyarrow
    from deltalake import write_deltalake

    now = time.time()
    for version in range(3):
        kept = {"delta.deletedFileRetentionDuration": "interval 86400 seconds"}
        write_deltalake(str(folder), pyarrow.table({"n": [version]}), mode="overwrite", configuration=kept if version == 0 else None)
        when = now - (3 - version) * 86_400 * (version < 2)
        os.utime(folder / f"_delta_log/{version:020}.json", (when, when))
    return TableRef(str(folder))
