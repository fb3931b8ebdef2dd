"""Queries that DuckDB answers: nothing that writes is run, however it is wrapped."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from lakelog import InvalidRequest, NotFound
from lakelog.native.query import ask
from lakelog.native.rows import Rows

COPY = "COPY (SELECT 1 AS a) TO '{file}'"
# DuckDB before 2 knows no COPY within another statement: the query is wrong to it.
WITHIN = [f"WITH x AS ({COPY}) SELECT 1", f"EXPLAIN (ANALYZE) WITH x AS ({COPY}) SELECT 1"]
WRITES = [
    COPY,
    f"EXPLAIN {COPY}",
    f"EXPLAIN (ANALYZE) {COPY}",
    f"explain /* ( */ ( format json , analyze ) {COPY}",
    f"EXPLAIN (ANALYZE true, FORMAT JSON) {COPY}",
    "EXPLAIN (ANALYZE) CREATE TABLE t AS SELECT 1",
    "EXPLAIN (ANALYZE) ATTACH '{file}'",
    "EXPLAIN (ANALYZE) WITH x AS (SELECT 1 AS a) INSERT INTO t SELECT * FROM x",
    *WITHIN,
    f"SELECT 1; {COPY}",
    f"EXPLAIN SELECT 1; {COPY}",
]
# Where one word is not understood, all is refused too.
UNREADABLE = [
    f"EXPLAIN (/* so */ ANALYZE) {COPY}",
    f"EXPLAIN (FORMAT 'json', ANALYZE) {COPY}",
    f"EXPLAIN ANALYZE {COPY}",
    f"SELECT * FROM query('{COPY.replace(chr(39), chr(39) * 2)}')",
]
QUERIES = [
    "EXPLAIN SELECT 1",
    "EXPLAIN (SELECT 1)",
    "EXPLAIN (FORMAT JSON) SELECT 1;",
    "EXPLAIN (ANALYZE) (SELECT 1) UNION ALL SELECT 2 -- done",
    "EXPLAIN DESCRIBE SELECT 1",
    "/* first */ SELECT 1;",
    "WITH x AS (SELECT 'COPY' AS copy) FROM x",
    "VALUES (1)",
    "FROM range(3)",
    "SHOW TABLES",
    "DESCRIBE SELECT 1 AS a",
    "SELECT 1 AS a, 2 AS a",
]


def asked(query: str) -> Rows:
    def opened(name: str) -> Any:
        raise AssertionError(name)

    return ask([], opened, query, None)


@pytest.mark.parametrize("text", [*WRITES, *UNREADABLE])
def test_what_writes_is_refused_and_not_run(text: str, tmp_path: Path) -> None:
    file = tmp_path / "written.csv"
    with pytest.raises(InvalidRequest) as refused:
        asked(text.format(file=file))
    not_understood = text in UNREADABLE or (text in WITHIN and duckdb.__version__.startswith("1."))
    assert refused.value.name == "NOT_A_QUERY" or not_understood
    assert refused.value.exit_code == 2
    assert not file.exists()


def test_no_comment_hides_what_is_explained(tmp_path: Path) -> None:
    """DuckDB nests comments: to it, COPY would be what this text explains."""
    file = tmp_path / "written.csv"
    asked(f"EXPLAIN /* /* */ SELECT 1 -- */ (ANALYZE) {COPY.format(file=file)}")
    assert not file.exists()


# The views of DuckDB's own that it answers SHOW and DESCRIBE with.
OF_DUCKDB = ("duckdb_columns", "duckdb_databases", "duckdb_tables", "duckdb_views", "sqlite_master", "pg_tables")


@pytest.mark.parametrize("query", ["SHOW TABLES", "SHOW ALL TABLES", "DESCRIBE", "SHOW DATABASES"])
def test_topics_may_be_called_as_views_of_duckdb_are(query: str) -> None:
    def opened(name: str) -> Any:
        return SimpleNamespace(views_of=lambda names, at: {one: asked(f"SELECT 1 AS of_{name}") for one in names})

    listed = sorted(view for name in (*OF_DUCKDB, "orders") for view in (name, f"{name}_deleted", f"{name}_log"))
    found = ask((*OF_DUCKDB, "orders"), opened, query, None).collect()
    if "TABLES" in query or query == "DESCRIBE":
        assert sorted(row["name"] for row in found) == listed
    for name in (*OF_DUCKDB, "orders"):
        assert ask((*OF_DUCKDB, "orders"), opened, f"DESCRIBE {name}", None).collect()[0]["column_name"] == f"of_{name}"
        assert ask((*OF_DUCKDB, "orders"), opened, f"SELECT * FROM {name}", None).columns == [f"of_{name}"]


def test_show_lists_the_views_of_a_topic_whose_name_the_statement_holds() -> None:
    def opened(name: str) -> Any:
        return SimpleNamespace(views_of=lambda names, at: {one: asked("SELECT 1 AS n") for one in names})

    for query in ("SHOW TABLES", "SHOW ALL TABLES", "SHOW TABLES -- orders", "/* tables_log */ SHOW TABLES"):
        found = ask(("orders", "tables"), opened, query, None).collect()
        assert sorted(row["name"] for row in found) == [
            f"{name}{kind}" for name in ("orders", "tables") for kind in ("", "_deleted", "_log")
        ], query


def test_views_whose_names_are_computed_are_known() -> None:
    topic = SimpleNamespace(views_of=lambda names, at: {one: asked(f"SELECT '{one}' AS name") for one in names})
    for table in ("query_table('orders' || '_log')", "query_table('ord' || 'ers_log')", "query('FROM orders' || '_log')"):
        found = ask(("orders",), lambda _: topic, f"SELECT o.name, p.name AS other FROM {table} o, query_table('Or' || 'ders') p", None)
        assert [row.asDict() for row in found.collect()] == [{"name": "orders_log", "other": "orders"}], table
    with pytest.raises(NotFound, match="Did you mean orders_log"):
        ask(("orders",), lambda _: topic, "SELECT * FROM query_table('orders' || '_lok')", None)


@pytest.mark.parametrize("text", QUERIES)
def test_what_only_asks_is_answered(text: str) -> None:
    assert asked(text).columns
