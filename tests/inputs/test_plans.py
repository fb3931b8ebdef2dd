"""Which frames give the same rows each time they are evaluated, so that an append reads them twice instead of keeping a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from lakelog.delta.location import over_connect
from lakelog.inputs.plans import repeats
from lakelog.inputs.sources import requested


def test_a_frame_is_read_twice_only_where_it_cannot_give_other_rows(spark: Any, lake: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    parquet.write_table(pyarrow.table({"key": ["a", "b"], "n": [1, 2]}), tmp_path / "a.parquet")
    files = spark.read.parquet(str(tmp_path / "a.parquet"))
    files.write.format("delta").save(str(tmp_path / "delta"))
    files.write.partitionBy("n").saveAsTable("of_plans", format="parquet", path=str(tmp_path / "table"))
    wide = [F.col("n").alias(f"c{index}") for index in range(300)]
    try:
        repeating = {
            "files": files,
            "selected": files.filter("n % 2 = 0 AND key LIKE 'a%'").selectExpr("upper(key) AS key", "struct(n, n + 1 AS m) AS value"),
            "two": files.union(files.selectExpr("concat(key, 'x')", "CAST(n AS BIGINT)")),
            "held": spark.createDataFrame(pyarrow.table({"key": ["a"], "value": ["v"]})),
            "nothing": files.filter("1 = 0"),
            "wide": files.select("key", *wide),
        }
        others = {
            "random filter": files.filter("rand() < 0.5"),
            "random": files.withColumn("r", F.rand(7)),
            "uuid": files.selectExpr("key", "uuid() AS value"),
            "time": files.filter("current_timestamp() < TIMESTAMP '2020-01-01 00:00:00'"),
            "numbered": files.withColumn("id", F.monotonically_increasing_id()),
            "hidden among many columns": files.select("key", *wide, F.rand().alias("r")),
            "sorted": files.orderBy("key"),
            "shuffled": files.repartition(3),
            "sampled": files.sample(0.5),
            "first": files.limit(1),
            "grouped": files.groupBy("key").count(),
            "joined": files.join(files.select("key"), "key"),
            "of Python": files.select(F.udf(lambda key: key, "string")("key").alias("key")),
            "a Delta table": spark.read.format("delta").load(str(tmp_path / "delta")),
            "a table": spark.read.table("of_plans"),
            "text": spark.read.text(str(tmp_path / "a.parquet")),
        }
        # A Connect session hands them over as it does tables of Arrow, with the plan.
        (repeating if over_connect(spark) else others)["rows of Python"] = spark.createDataFrame([("a",)], "key STRING")
        assert {name: repeats(frame) for name, frame in {**repeating, **others}.items()} == {
            **dict.fromkeys(repeating, True),
            **dict.fromkeys(others, False),
        }
        topic = lake.create_topic("t", key="STRING", value="n BIGINT")
        for name in ("files", "held"):
            frame = repeating[name].select("key")
            assert requested(spark, frame, None, topic.types).repeatable, name
        assert not requested(spark, others["sorted"].select("key"), None, topic.types).repeatable
        assert topic.append(files.selectExpr("key", "struct(n) AS value")).offsets == {0: (0, 2)}
        assert [(row["key"], row["value"]["n"]) for row in topic.read().orderBy("offset").collect()] == [("a", 1), ("b", 2)]
    finally:
        spark.sql("DROP TABLE of_plans")
