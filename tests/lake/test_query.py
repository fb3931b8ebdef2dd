"""`Lake.sql` asks: what is no query is refused before it is run, whatever stands around it; a damaged topic says so."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lakelog import Damaged, InvalidRequest, Lake, NotFound
from lakelog.model.queries import begun
from tests.tables import versions

QUERIES = [
    "SELECT key FROM orders",
    "SELECT key FROM orders;",
    "select key from orders; -- done;",
    "SELECT key FROM orders -- the end",
    "/* what */ -- and why;\n SELECT key FROM orders",
    "WITH o AS (SELECT * FROM orders) SELECT key FROM o",
    "FROM orders SELECT key",
    "TABLE orders",
    "VALUES (1), (2)",
    "(SELECT key FROM orders) UNION ALL (SELECT key FROM orders)",
    "SELECT ';' AS a, '-- no comment' AS b, '/*' AS c, 'DELETE FROM x' AS d",
    "SELECT ';-- no end'",
    "SELECT 1 AS `DELETE FROM x; --`",
    "SHOW VIEWS",
    "DESCRIBE orders",
    "DESC orders;",
    "EXPLAIN SELECT key FROM orders",
    "SELECT key FROM IDENTIFIER('orders' || '_log')",
    "WITH a AS (SELECT * FROM IDENTIFIER('orders_' || 'log')) SELECT a.key FROM a JOIN IDENTIFIER('ord' || 'ers') o ON a.key = o.key",
    "EXPLAIN EXTENDED /* all of it */ SELECT key FROM orders;",
]
# The silver table of the topic stands for {silver}.
WRITES = [
    "DELETE FROM {silver}",
    "delete from {silver} where key = 'a'",
    "-- harmless\nDELETE FROM {silver}",
    "/* SELECT */ DELETE FROM {silver}",
    "/* /* */ SHOW VIEWS; */ DELETE FROM {silver}",
    "SELECT 1; DELETE FROM {silver}",
    "SELECT 1; DELETE FROM {silver}; -- SELECT",
    "SHOW VIEWS; DELETE FROM {silver}",
    "DELETE FROM {silver}; SELECT 1",
    "UPDATE {silver} SET key = 'z'",
    "INSERT INTO {silver} SELECT * FROM {silver}",
    "WITH s AS (SELECT * FROM {silver}) INSERT INTO {silver} SELECT * FROM s",
    "FROM {silver} INSERT INTO {silver} SELECT *",
    "SELECT 1) INSERT INTO {silver} FROM (SELECT 2",
    "MERGE INTO {silver} t USING {silver} s ON false WHEN NOT MATCHED THEN INSERT *",
    "TRUNCATE TABLE {silver}",
    "DROP TABLE {silver}",
    "ALTER TABLE {silver} SET TBLPROPERTIES ('a' = 'b')",
    "CREATE TABLE other AS SELECT 1",
    "CREATE OR REPLACE TEMP VIEW orders AS SELECT 1",
    "RESTORE TABLE {silver} TO VERSION AS OF 0",
    "OPTIMIZE {silver}",
    "VACUUM {silver}",
    "SET spark.sql.ansi.enabled = false",
    "EXECUTE IMMEDIATE 'DELETE FROM {silver}'",
    "EXPLAIN EXECUTE IMMEDIATE 'DELETE FROM {silver}'",
    "EXPLAIN DELETE FROM {silver}",
    "BEGIN DELETE FROM {silver}; END",
    "CALL system.anything()",
    "",
    "-- nothing but a comment",
]


@pytest.fixture(scope="module")
def asked(house: Lake) -> Lake:
    """A lake with a topic and one record."""
    topic = house.create_topic("orders", key="STRING", value="STRING")
    topic.append([{"key": "a", "value": "1"}])
    topic.merge()
    return house


def silver(lake: Lake) -> str:
    return f"delta.`{lake.root}/orders/silver`"


@pytest.mark.parametrize("text", QUERIES)
def test_queries_are_answered(asked: Lake, text: str) -> None:
    assert asked.sql(text).columns


@pytest.mark.parametrize("text", WRITES)
def test_what_is_no_query_is_refused_and_not_run(asked: Lake, text: str) -> None:
    before = versions(asked.root, "orders")
    with pytest.raises(InvalidRequest) as refused:
        asked.sql(text.format(silver=silver(asked)))

    assert refused.value.name in ("NOT_A_QUERY", "INVALID_QUERY")
    assert refused.value.name == "NOT_A_QUERY" or text.startswith(("SELECT 1)", "SHOW", "/* /*"))
    assert "\n" not in str(refused.value)
    assert versions(asked.root, "orders") == before
    assert [row["key"] for row in asked.sql("SELECT key FROM orders").collect()] == ["a"]


def test_a_refusal_names_what_was_meant() -> None:
    with pytest.raises(InvalidRequest, match="SELEC begins no query. Did you mean SELECT?"):
        begun("-- ask\nselec 1")
    with pytest.raises(InvalidRequest, match="DELETE begins no query. One statement can be asked: SELECT, "):
        begun("DELETE FROM x")


def test_what_is_wrong_with_a_query_is_told_in_the_users_own_words(asked: Lake) -> None:
    with pytest.raises(InvalidRequest, match="The query is wrong: .*near 'orders'") as refused:
        asked.sql("SELECT key FRM orders WHERE")
    assert "EXPLAIN" not in str(refused.value)
    assert "lakelog_query" not in str(refused.value)


def test_a_damaged_topic_says_so_and_the_others_are_answered(lake: Lake) -> None:
    for name in ("orders", "prices"):
        topic = lake.create_topic(name, key="STRING", value="STRING")
        topic.append([{"key": "a", "value": "1"}])
        topic.merge()
    lake.spark.sql(f"DELETE FROM delta.`{lake.root}/orders/silver`")
    orders = lake.topic("orders")

    for ask in (
        lambda: lake.sql("SELECT * FROM Orders"),
        lambda: lake.sql("SELECT * FROM orders_deleted"),
        orders.latest,
        orders.deleted,
        orders.status,
    ):
        with pytest.raises(Damaged, match="orders"):
            ask()
    assert [row["key"] for row in lake.sql("SELECT key FROM prices").collect()] == ["a"]
    lake.topic("prices").snapshot("monday")
    for engine in ("spark", "duckdb"):
        with pytest.raises(NotFound, match="orders: there is no snapshot monday") as refused:
            lake.sql("SELECT * FROM prices JOIN orders ON prices.key = orders.key", at="monday", engine=engine)
        assert refused.value.name == "SNAPSHOT_NOT_FOUND"
    assert lake.sql("SELECT * FROM orders_log").count() == 1
    assert orders.latest(at=1).count() == 1
    assert Path(lake.root, "orders", "silver").is_dir()


@pytest.mark.long
def test_a_snapshot_is_asked_however_old_it_is(lake: Lake) -> None:
    """Delta refuses a version that is older than the retention of removed files, once another follows."""
    topic = lake.create_topic("t", key="STRING", value="STRING")
    kept = "'delta.logRetentionDuration' = 'interval 1 seconds', 'delta.deletedFileRetentionDuration' = 'interval 1 seconds'"
    lake.spark.sql(f"ALTER TABLE {topic.silver.sql()} SET TBLPROPERTIES ({kept})").collect()
    topic.append([{"key": "a", "value": "1"}])
    topic.merge()
    taken = topic.snapshot()
    time.sleep(3)
    topic.append([{"key": "a", "value": "2"}])
    topic.merge()
    asked = lake.sql("SELECT value FROM t", at=taken.id)
    assert [row["value"] for row in asked.collect()] == [row["value"] for row in topic.latest(taken.id).collect()] == ["1"]
