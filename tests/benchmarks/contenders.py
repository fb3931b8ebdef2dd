"""The contenders of the merge benchmark, one process each: the naive recipe, the expert recipe, lakelog with and without deletion vectors.

Every contender holds the same table (key STRING, value STRUCT<payload STRING, version BIGINT> or flat), takes the same batches, and leaves
its final table as Parquet (key, payload, version), which the parent compares before it prints any figure.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lakelog import Lake, local_session
from tests.benchmarks.measure import Peak, measured

NAIVE = "WHEN MATCHED AND s.version > t.version THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


def say(line: str) -> None:
    """Progress, to stderr."""
    sys.stderr.write(f"  {sys.argv[1]} {line}\n")


def recipe(spark, data: Path, work: Path, batches: list[str], *, expert: bool) -> list[dict]:
    """row_number, then MERGE; as an expert with deletion vectors, a broadcast source, few shuffle and snapshot partitions."""
    table = work / "table"
    writer = spark.read.parquet(str(data / "base")).select("key", "payload", "version").write.format("delta")
    if expert:
        spark.conf.set("spark.sql.shuffle.partitions", "4")
        writer = writer.option("delta.enableDeletionVectors", "true")
    writer.save(str(table))
    results, previous = [], ""
    for name in batches:
        figures: dict = {"batch": name}
        previous = previous if name == "again" else name
        with measured(table, figures):
            spark.read.parquet(str(data / previous)).createOrReplaceTempView("batch")
            numbered = "SELECT *, row_number() OVER (PARTITION BY key ORDER BY version DESC, id DESC) r FROM batch"
            source = f"SELECT key, payload, version FROM ({numbered}) WHERE r = 1"
            if expert:
                spark.sql(source).hint("broadcast").createOrReplaceTempView("winners")
            else:
                spark.sql(source).createOrReplaceTempView("winners")
            spark.sql(f"MERGE INTO delta.`{table}` t USING winners s ON t.key = s.key {NAIVE}").collect()
        results.append(figures)
        say(f"{name}: {figures['cpu_s']} CPU-s")
    spark.read.format("delta").load(str(table)).select("key", "payload", "version").write.parquet(str(work / "final"))
    return results


def lakelog(spark, data: Path, work: Path, batches: list[str], *, vectors: bool) -> list[dict]:
    """lakelog: the append is measured apart from the merge step."""
    lake = Lake(spark, str(work / "lake"))
    config = {"compaction.strategy": "column", "compaction.strategy.column": "version", "deletion.vectors": vectors}
    topic = lake.create_topic("t", key="STRING", value="payload STRING, version BIGINT", config=config)
    shape = "key", "struct(payload, version) AS value"
    topic.append(spark.read.parquet(str(data / "base")).selectExpr(*shape))
    topic.merge()
    silver = work / "lake" / "t" / "silver"
    results, previous = [], ""
    for name in batches:
        figures: dict = {"batch": name}
        appended: dict = {}
        # The last batch again is the same call again, with the same token.
        previous = previous if name == "again" else name
        with measured(work / "lake" / "t" / "bronze", appended):
            answer = topic.append(spark.read.parquet(str(data / previous)).orderBy("id").selectExpr(*shape), token=previous)
        assert answer.repeated == (name == "again") and bool(appended["written_mb"]) != answer.repeated
        figures["append_cpu_s"] = appended["cpu_s"]
        with measured(silver, figures):
            figures["merged"] = topic.merge().to_dict()
        results.append(figures)
        say(f"{name}: {figures['cpu_s']} CPU-s")
    topic.rows().filter("NOT tombstone").selectExpr("key", "value.payload", "value.version").write.parquet(str(work / "final"))
    return results


def main() -> None:
    """``contenders.py NAME DATA WORK BATCH…``; prints the figures as one line of JSON."""
    name, data, work, *batches = sys.argv[1:]
    plain = {"spark.sql.shuffle.partitions": "200", "spark.databricks.delta.snapshotPartitions": "50"} if name == "naive" else {}
    spark = local_session(master="local[2]", memory="6g", config=plain)
    spark.range(1000).selectExpr("sum(id)").collect()
    peak = Peak()
    run = {
        "naive": lambda: recipe(spark, Path(data), Path(work), batches, expert=False),
        "expert": lambda: recipe(spark, Path(data), Path(work), batches, expert=True),
        "lakelog": lambda: lakelog(spark, Path(data), Path(work), batches, vectors=False),
        "lakelog-dv": lambda: lakelog(spark, Path(data), Path(work), batches, vectors=True),
    }[name]
    results = run()
    sys.stdout.write(json.dumps({"contender": name, "peak_mb": round(peak.stop() / 1e6), "batches": results}) + "\n")


if __name__ == "__main__":
    main()
