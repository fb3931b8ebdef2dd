"""lakelog's own expectations as classes of Great Expectations: importing this file makes their JSON known to it.

Great Expectations evaluates them when the latest table is audited, or when somebody runs a suite with it alone. Rules about single rows become
one aggregation together, whatever their number. None of them leaves a view behind or caches anything.
"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from great_expectations.compatibility import pydantic
from great_expectations.compatibility.pyspark import functions as F
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_partial, metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from lakelog.model.names import quoted

SHOWN = 5
ROW_COUNT = "table.row_count"


class RowsViolating(TableMetricProvider):
    """How many rows a condition does not hold for; NULL counts as such."""

    metric_name = "lakelog.rows_violating"
    value_keys = ("expression",)

    @metric_partial(
        engine=SparkDFExecutionEngine, partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN, domain_type=MetricDomainTypes.TABLE
    )
    def _spark(cls, execution_engine, metric_domain_kwargs, metric_value_kwargs, metrics, runtime_configuration):  # type: ignore[no-untyped-def]
        violating = ~F.coalesce(F.expr(metric_value_kwargs["expression"]), F.lit(False))
        return F.count_if(violating), metric_domain_kwargs, {}


def _key(frame: Any) -> Any:
    """The key of a row as text, where the rows have one."""
    known = "_key" in frame.columns
    return F.to_json(F.struct(F.col("_key").alias("key"))) if known else F.lit(None).cast("string")


class GroupsRepeated(TableMetricProvider):
    """How many groups of equal columns have several rows, and of the first of them the columns and keys."""

    metric_name = "lakelog.groups_repeated"
    value_keys = ("columns",)

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(cls, execution_engine, metric_domain_kwargs, metric_value_kwargs, metrics, runtime_configuration):  # type: ignore[no-untyped-def]
        frame = execution_engine.get_domain_records(domain_kwargs=metric_domain_kwargs)
        columns = [F.col(quoted(name)) for name in metric_value_kwargs["columns"]]
        low, high = F.min(_key(frame)).alias("lakelog_low"), F.max(_key(frame)).alias("lakelog_high")
        groups = frame.groupBy(*columns).agg(F.count(F.lit(1)).alias("lakelog_rows"), low, high).filter("lakelog_rows > 1")
        shown = F.struct(F.to_json(F.struct(*columns, "lakelog_rows")).alias("columns"), "lakelog_low", "lakelog_high")
        found = groups.agg(F.count(F.lit(1)).alias("groups"), F.min(shown).alias("one"), F.max(shown).alias("other")).collect()[0]
        first = [one for one in (found["one"], found["other"]) if one is not None]
        keys = {key for one in first for key in (one["lakelog_low"], one["lakelog_high"]) if key is not None}
        return {"groups": int(found["groups"]), "first": sorted({one["columns"] for one in first}), "keys": sorted(keys)}


class QueryRows(TableMetricProvider):
    """How many rows a query over the batch gives, and the first of them; their keys where the query selects ``_key``."""

    metric_name = "lakelog.query_rows"
    value_keys = ("query",)

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(cls, execution_engine, metric_domain_kwargs, metric_value_kwargs, metrics, runtime_configuration):  # type: ignore[no-untyped-def]
        frame = execution_engine.get_domain_records(domain_kwargs=metric_domain_kwargs)
        session = frame.sparkSession
        name = f"lakelog_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)
        try:
            rows = session.sql(metric_value_kwargs["query"].replace("{batch}", quoted(name)))
            count = rows.agg(F.count(F.lit(1))).collect()[0][0]
            first = rows.select(F.to_json(F.struct("*")), _key(rows)).limit(SHOWN).collect() if count else []
        finally:
            session.catalog.dropTempView(name)
        keys = sorted({row[1] for row in first if row[1] is not None})
        return {"rows": int(count), "first": [row[0] for row in first], "keys": keys}


class ExpectRowsToSatisfy(BatchExpectation):
    """Expect an SQL condition to hold for each row, or for the share ``mostly`` of them; NULL counts as broken."""

    name: str
    expression: str
    mostly: float = pydantic.Field(default=1.0, ge=0, le=1)

    metric_dependencies: ClassVar[tuple[str, ...]] = (ROW_COUNT, "lakelog.rows_violating")
    success_keys: ClassVar[tuple[str, ...]] = ("expression", "mostly")
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None) -> dict[str, Any]:
        rows, wrong = int(metrics[ROW_COUNT]), int(metrics["lakelog.rows_violating"] or 0)
        holds = wrong == 0 or (self.mostly < 1 and (rows - wrong) / rows >= self.mostly)
        return {"success": holds, "result": {"element_count": rows, "unexpected_count": wrong, "observed_value": wrong}}


class ExpectGroupsToBeUnique(BatchExpectation):
    """Expect no two rows to agree in all of some columns."""

    columns: list[str]
    name: str = ""

    metric_dependencies: ClassVar[tuple[str, ...]] = (ROW_COUNT, "lakelog.groups_repeated")
    success_keys: ClassVar[tuple[str, ...]] = ("columns",)
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None) -> dict[str, Any]:
        found = metrics["lakelog.groups_repeated"]
        result = {"element_count": int(metrics[ROW_COUNT]), "unexpected_count": found["groups"], "partial_unexpected_list": found["first"]}
        result |= {"details": {"keys": found["keys"]}, "observed_value": f"{found['groups']} groups have several rows"}
        return {"success": not found["groups"], "result": result}


class ExpectQueryToReturnNoRows(BatchExpectation):
    """Expect a query over the batch, which it calls ``{batch}``, to return nothing."""

    name: str
    query: str

    metric_dependencies: ClassVar[tuple[str, ...]] = ("lakelog.query_rows",)
    success_keys: ClassVar[tuple[str, ...]] = ("query",)
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None) -> dict[str, Any]:
        found = metrics["lakelog.query_rows"]
        result = {"unexpected_count": found["rows"], "partial_unexpected_list": found["first"], "details": {"keys": found["keys"]}}
        return {"success": not found["rows"], "result": {**result, "observed_value": f"the query gives {found['rows']} rows"}}


class ExpectFigureToBeBetween(BatchExpectation):
    """Expect a figure that lakelog counts to lie between two bounds. Great Expectations alone does not know the figure."""

    name: str
    figure: str
    min_value: float | None = None
    max_value: float | None = None

    metric_dependencies: ClassVar[tuple[str, ...]] = (ROW_COUNT,)
    success_keys: ClassVar[tuple[str, ...]] = ("figure", "min_value", "max_value")
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None) -> dict[str, Any]:
        raise NotImplementedError(f"the figure {self.figure} is lakelog's: run this suite with lakelog check")
