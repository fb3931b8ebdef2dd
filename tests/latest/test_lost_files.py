"""Data files that are gone: the verbs that look at everything name the file and the remedy, and what is said to help helps."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from pyspark.sql import SparkSession

from lakelog import Damaged, Lake, LogIncomplete, NotFound, Topic
from lakelog.latest import rebuild
from lakelog.latest.merge import places
from lakelog.log.tail import log_end
from tests.conftest import Answer, Clock
from tests.native.damages import data_files
from tests.tables import versions


def lose(lake: Lake, table: str) -> str:
    """Take the data files of a topic's records away; gives the first one's name."""
    folder = Path(lake.root, "orders", table)
    lost = [file for file in data_files(folder) if "=-" not in str(file.relative_to(folder))]
    for file in lost:
        file.unlink()
    return f"{lost[0].parent.name}/" if len(lost) > 1 else str(lost[0].relative_to(folder))


def test_a_lost_file_is_named_and_the_latest_table_is_written_anew(lake: Lake, cli: Callable[..., Answer]) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": key, "value": "1"} for key in "abc"])
    topic.merge()
    topic.append([{"key": "b", "value": "2"}])
    lost = lose(lake, "silver")
    verbs: list[Callable[[], object]] = [topic.merge, topic.verify]
    for verb in verbs:
        with pytest.raises(Damaged, match="run merge with rebuild once") as refused:
            verb()
        assert f"{lost} is missing. A file of the table is missing or broken: put it back from a copy" in str(refused.value)
    for command in ("merge", "verify", "latest --engine spark"):
        answer = cli(f"--root {lake.root} {command.replace(' ', ' orders ', 1) if ' ' in command else f'{command} orders'}")
        assert (answer.code, "run `lakelog merge orders --rebuild` once" in answer.err) == (70, True), answer
    assert topic.merge(rebuild=True).inserted == 3
    assert topic.verify().ok
    again = lose(lake, "silver")
    mended = topic.repair()
    assert again in mended.problems[0] and mended.done == ["the latest table was computed anew"]
    assert topic.verify().ok
    assert sorted(row["value"] for row in topic.latest().collect()) == ["1", "1", "2"]

    lost = lose(lake, "bronze")
    before = sorted(str(file) for file in Path(lake.root).rglob("*") if file.is_file())
    for verb in (topic.verify, topic.repair):
        with pytest.raises(Damaged, match="is missing or broken: put it back from a copy before going on") as refused:
            verb()
        assert lost in str(refused.value) and "anew" not in str(refused.value)
    assert sorted(str(file) for file in Path(lake.root).rglob("*") if file.is_file()) == before, "nothing was written"
    answer = cli(f"--root {lake.root} read orders --engine spark")
    assert (answer.code, lost in answer.err) == (70, True), answer


@pytest.mark.long
def test_control_rows_that_are_lost_are_made_anew_with_the_latest_table(lake: Lake) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": key, "value": "1"} for key in "abc"])
    topic.merge()

    def lost() -> None:
        for file in Path(lake.root, "orders", "silver", "bucket=-1").iterdir():
            file.unlink()

    for mend in (lambda: topic.merge(rebuild=True), topic.repair):
        topic.append([{"key": "b", "value": "2"}])
        lost()
        with pytest.raises(Damaged, match="run merge with rebuild once"):
            topic.merge()
        mend()
        assert (topic.verify().problems, len(topic.latest().collect()), topic.status().unmerged_records) == ([], 3, 0)

    # Somebody else makes them anew while this one looks at the log: nothing of that is undone.
    lost()
    known = rebuild.found(topic.log)
    end = log_end(topic.log, pin=True)
    lake.topic("orders").merge(rebuild=True)
    before = versions(lake.root, "orders")
    made, _ = rebuild.rebuild(topic.log, end.starts(), places(end), known, bronze_version=end.version, now=lake.clock())
    assert (made, versions(lake.root, "orders")) == (None, before)


@pytest.mark.long
def test_a_lost_file_is_named_where_no_snapshot_can_prove_the_latest_table(lake: Lake) -> None:
    """The log begins behind the snapshot, which shares the file that is lost; of what nothing proves, the files are looked at."""
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": key, "value": "1"} for key in "ab"])
    topic.snapshot("s")
    topic.truncate("s")
    folder, aside = Path(lake.root, "orders", "silver"), Path(lake.root).parent / "aside"
    assert topic.verify().ok
    shutil.copytree(folder, aside)
    lost = lose(lake, "silver")
    with pytest.raises(Damaged, match="is missing or broken: put it back from a copy") as refused:
        topic.verify()
    assert lost in str(refused.value)
    with pytest.raises((LogIncomplete, Damaged)) as found:
        topic.repair()
    assert "Nothing was changed" in str(found.value), found.value
    shutil.copytree(aside, folder, dirs_exist_ok=True)
    assert topic.verify().ok

    # The snapshot's own files alone, and those that say how far it is.
    topic.append([{"key": key, "value": "2"} for key in "ab"])
    topic.merge()
    old = set(aside.rglob("*.parquet"))
    current = {Path(unquote(urlparse(one).path)).name for one in topic.spark.sql(f"SELECT * FROM {topic.silver.sql()}").inputFiles()}
    for file in old:
        if file.name not in current and "_delta_log" not in str(file):
            Path(folder, file.relative_to(aside)).unlink()
    found = topic.verify()
    assert len(found.problems) == 1, found
    assert "no snapshot whose files are there (those of s are gone, some or all) holds them" in found.problems[0]
    topic.snapshot("anew")
    again = topic.verify()
    assert again.problems == [], again
    topic.spark.sql(f"INSERT INTO {topic.silver.sql()} SELECT * FROM {topic.silver.sql()} WHERE key = 'a'")
    topic.delete_snapshot("anew")
    assert "1 keys stand more than once in silver" in topic.verify().problems


@pytest.mark.long
def test_a_version_whose_files_are_gone_is_not_found_by_either_engine(
    spark: SparkSession, tmp_path: Path, clock: Clock, cli: Callable[..., Answer]
) -> None:
    """What a VACUUM took of older versions is no damage; of the newest one it is. The log can be asked all the same.

    The root is called as a layer of a medallion architecture is, and as the folder of a latest table.
    """
    lake = Lake(spark, str(tmp_path / "a house" / "silver"), clock=clock)
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": key, "value": "1"} for key in "abc"])
    older = topic.merge().version
    topic.snapshot("first")
    topic.append([{"key": "b", "value": "2"}])
    newest = topic.merge().version
    lose(lake, "silver")
    root = ["--root", lake.root]
    for at, code, name in (("first", 5, "SNAPSHOT_NOT_FOUND"), (str(older), 5, "SNAPSHOT_NOT_FOUND"), (str(newest), 70, "DAMAGED")):
        for command in (["latest", "orders"], ["latest", "orders", "--deleted"]):
            for engine in ("spark", "native"):
                answer = cli([*root, *command, "--at", at, "--engine", engine])
                assert (answer.code, f"({name})" in answer.err) == (code, True), (at, command, engine, answer)
                assert code == 70 or f"files of version {older} were removed" in answer.err, answer
        for engine in ("spark", "duckdb"):
            answer = cli([*root, "sql", "--at", at, "--engine", engine, "SELECT count(key) AS n, max(value) AS v FROM orders"])
            assert (answer.code, f"({name})" in answer.err) == (code, True), (at, engine, answer)
    with pytest.raises(NotFound, match=f"files of version {older} were removed") as refused:
        topic.to_arrow("first")
    assert refused.value.name == "SNAPSHOT_NOT_FOUND"
    answer = cli([*root, "snapshot", "diff", "orders", str(newest), "now"])
    assert (answer.code, "(DAMAGED)" in answer.err) == (70, True), answer
    whole = topic.merge(rebuild=True).version
    topic.append([{"key": "c", "value": "3"}])
    topic.merge()
    answer = cli([*root, "snapshot", "diff", "orders", "first", "now"])
    assert (answer.code, f"files of version {older} were removed" in answer.err) == (5, True), answer
    with pytest.raises(NotFound, match=f"files of version {older} were removed"):
        topic.export(str(tmp_path / "export"), "first")

    # A table that is not the lake's, in a folder called as a topic's, and the log are damaged as ever.
    theirs = tmp_path / "orders" / "silver"
    spark.sql(f"CREATE TABLE delta.`{theirs}` USING delta AS SELECT 1 AS n")
    for file in data_files(theirs):
        file.unlink()
    shutil.copytree(Path(lake.root, "orders", "bronze"), tmp_path / "bronze")
    lose(lake, "bronze")
    for query, lost in (
        (f"SELECT count(n) AS n FROM orders JOIN delta.`{theirs}`", theirs),
        ("SELECT max(value) AS v FROM orders_log", "bronze/"),
    ):
        answer = cli([*root, "sql", "--at", str(whole), "--engine", "spark", query])
        assert (answer.code, "(DAMAGED)" in answer.err, str(lost) in answer.err) == (70, True, True), (query, answer)
    shutil.copytree(tmp_path / "bronze", Path(lake.root, "orders", "bronze"), dirs_exist_ok=True)

    shutil.rmtree(Path(lake.root, "orders", "silver", "_delta_log"))
    for query in ("SELECT count(*) AS n FROM orders_log", "DESCRIBE orders_log"):
        for engine in ("spark", "duckdb"):
            answer = cli([*root, "sql", "--engine", engine, query])
            assert answer.code == 0, (query, engine, answer)


def test_what_the_newest_version_needs_as_well_is_damage_at_every_point(lake: Lake, cli: Callable[..., Answer]) -> None:
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}])
    older = topic.merge().version
    topic.append([{"key": "b", "value": "1"}])
    topic.merge()
    (lost,) = [file for file in data_files(Path(lake.root, "orders", "silver")) if is_of(topic, file, older)]
    lost.unlink()
    asked = [["latest", "orders", "--at", str(older)], ["sql", "--at", str(older), "SELECT * FROM orders"]]
    commands = [[*one, "--engine", engine] for one in asked for engine in ("spark", "native" if one[0] == "latest" else "duckdb")]
    for command in (*commands, ["snapshot", "diff", "orders", str(older), "now"], ["snapshot", "diff", "orders", str(older), str(older)]):
        answer = cli(["--root", lake.root, *command])
        assert (answer.code, f"{lost.name} is missing" in answer.err) == (70, True), (command, answer)


def is_of(topic: Topic, file: Path, version: int) -> bool:
    """Whether a data file of records, below a folder of a bucket of them, belongs to a version of silver and the newest one."""
    rows = [topic.spark.sql(f"SELECT * FROM {topic.silver.sql()}{at} WHERE bucket > -1") for at in (f" VERSION AS OF {version}", "")]
    return all(file.name in {address.rsplit("/", 1)[-1] for address in one.inputFiles()} for one in rows)


@pytest.mark.long
def test_a_deletion_vector_that_only_an_older_version_needs_is_no_damage(lake: Lake, cli: Callable[..., Answer]) -> None:
    """Spark names the data file, which is there."""
    topic = lake.create_topic("orders", key="STRING", value="STRING", config={"deletion.vectors": True})
    topic.append([{"key": str(number), "value": "1"} for number in range(500)])
    topic.merge()
    silver = Path(lake.root, "orders", "silver")
    vectors, versions = [], []
    for key in "567":
        topic.append([{"key": key, "value": "2"}])
        versions.append(topic.merge().version)
        topic.snapshot(f"with{key}")
        vectors.append(set(silver.rglob("*.bin")))
    gone = vectors[0] - (vectors[-1] - vectors[0])
    assert gone and vectors[-1] - vectors[1]
    for file in gone:
        file.unlink()
    older = versions[0]
    for command in (
        ["latest", "orders", "--at", str(older), "--engine", "spark"], ["latest", "orders", "--at", str(older)],
        ["snapshot", "diff", "orders", str(older), "now"], ["snapshot", "diff", "orders", str(older), str(versions[1])],
    ):  # fmt: skip
        answer = cli(["--root", lake.root, *command])
        assert (answer.code, f"files of version {older} were removed" in answer.err) == (5, True), (command, answer)
    for command in (["latest", "orders", "--engine", "spark"], ["snapshot", "diff", "orders", str(versions[1]), "now"]):
        assert cli(["--root", lake.root, *command]).code == 0

    # What cannot be said of another topic, whose name is part of this one's, stands in the way of nothing.
    other = lake.create_topic("order", key="STRING", value="STRING")
    lake.spark.sql(f"ALTER TABLE {other.bronze.sql()} SET TBLPROPERTIES ('lakelog.format' = '99')")
    answer = cli(["--root", lake.root, "sql", "--engine", "spark", "--at", "with5", "SELECT count(key) AS n FROM orders"])
    assert (answer.code, f"files of version {older} were removed" in answer.err) == (5, True), answer
