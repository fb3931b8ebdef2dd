"""Queries over a lake: its views are known to the query, and the caller's session stays as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakelog.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from lakelog import Lake


def test_the_callers_own_views_stay_whatever_lakelog_does(lake: Lake) -> None:
    spark = lake.spark
    topic = lake.create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "lake"}])
    topic.merge()
    for name in ("orders", "orders_deleted", "orders_log", "mine"):
        spark.sql(f"SELECT 'caller' AS value, '{name}' AS key").createOrReplaceTempView(name)
    before = {row.viewName for row in spark.sql("SHOW VIEWS").collect()}
    try:
        frame = lake.sql("SELECT value FROM orders")
        assert frame.collect()[0].value == "lake"
        # The caller's other views are known to the query, a definition of its own comes first.
        joined = "SELECT o.value, m.key FROM Orders o CROSS JOIN mine m;"
        assert lake.sql(joined).collect()[0][:] == ("lake", "mine")
        own = "/* who */ WITH mine AS (SELECT 1 AS n), orders_log AS (SELECT 2 AS n)\nSELECT * FROM mine UNION ALL SELECT * FROM orders_log; -- so"
        assert sorted(row.n for row in lake.sql(own).collect()) == [1, 2]
        assert lake.sql("FROM orders_log SELECT count(*) AS n").collect()[0].n == 1
        assert lake.sql("(SELECT key FROM orders) ORDER BY key").columns == ["key"]
        assert lake.sql("-- plan\nEXPLAIN SELECT * FROM orders").columns == ["plan"]
        assert [row.col_name for row in lake.sql("DESCRIBE QUERY TABLE orders").collect()][:2] == ["key", "value"]
        assert lake.sql("SELECT value FROM orders", at=0).collect() == []
        with pytest.raises(NotFound, match=r"Views: orders, orders_deleted, orders_log\."):
            lake.sql("SELECT * FROM order")
        with pytest.raises(InvalidRequest, match="The query is wrong"):
            lake.sql("SELECT nothing FROM orders")
        with pytest.raises(InvalidRequest, match="DROP begins no query"):
            lake.sql("DROP VIEW orders")
        lake.delete_topic("orders")
        for name in ("orders", "orders_deleted", "orders_log", "mine"):
            assert spark.table(name).collect()[0].value == "caller"
        assert {row.viewName for row in spark.sql("SHOW VIEWS").collect()} == before
    finally:
        for name in before:
            spark.catalog.dropTempView(name)


def test_a_command_leaves_nothing_where_it_runs(tmp_path: Path) -> None:
    repository = Path(__file__).parent.parent.parent
    lines = "from lakelog import local_session; s = local_session(master='local[1]', memory='1g'); s.sql('SHOW TABLES').collect(); s.stop()"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {"PYTHONPATH": str(repository), "TMPDIR": str(tmp_path)}
    (tmp_path / "here").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", lines], cwd=tmp_path / "here", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "here").iterdir()) == []
    assert list(tmp_path.glob("lakelog-warehouse-*")) == []
