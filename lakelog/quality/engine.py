"""The one door to Great Expectations: checks in, findings out. It is imported when a suite has something for it, and not before.

An ephemeral context per run: no project folder, no ids, no telemetry, no progress bars, nothing cached (``persist=False``). A check that raised, or
that is missing in the answer, is broken.
"""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidConfig, NotReady
from lakelog.model.config import did_you_mean
from lakelog.model.names import key_text
from lakelog.quality import judgement
from lakelog.quality.rowwise import ROW_WISE
from lakelog.quality.suites import OWN, Check
from lakelog.quality_results import FAILED, PASSED, Finding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Known to Great Expectations, and wrong or unsafe with Spark: what to write instead.
AVOIDED = {
    "unexpected_rows_expectation": "expect_query_to_return_no_rows",
    "expect_column_values_to_be_increasing": "expect_query_to_return_no_rows with lag() over an order",
    "expect_column_values_to_be_decreasing": "expect_query_to_return_no_rows with lag() over an order",
}
# Logs several kilobytes for each check that raises; the finding says what it was.
NOISY = (
    "great_expectations.validator.metrics_calculator",
    "great_expectations.validator.validator",
    "great_expectations.expectations.expectation",
)
SHOWN = 20


def require_understood(checks: Sequence[Check]) -> None:
    """Refuse checks that Great Expectations does not know, or not with these arguments; it would drop the former without a word.

    Raises:
        InvalidConfig: naming the check.
        NotReady: Great Expectations is not installed.

    Cost: its import, about two seconds once in a process, where there are any checks.
    """
    if checks:
        with _quiet():
            _expectations(checks)


def run(checks: Sequence[Check], rows: DataFrame, *, parameters: Mapping[str, Any]) -> list[Finding]:
    """Let Great Expectations evaluate checks on a frame.

    Args:
        checks: understood ones; none, and nothing is imported.
        rows: what they are about.
        parameters: the values of ``{"$PARAMETER": …}``.

    Returns:
        A finding for each check, in their order; with the first keys of groups that repeat, and of rows that a query gives with ``_key``. What
        Great Expectations has of its own about columns (a maximum, a share, a count) knows no keys.

    Cost: one Spark job for the row count and all conditions of `expect_rows_to_satisfy` together; one to three for each other check.
    """
    if not checks:
        return []
    with _quiet():
        import great_expectations as gx

        context = _context()
        batch = (
            context.data_sources.add_spark("lakelog", persist=False).add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
        )
        suite = context.suites.add(gx.ExpectationSuite(name="suite", expectations=_expectations(checks)))
        definition = context.validation_definitions.add(gx.ValidationDefinition(name="run", data=batch, suite=suite))
        try:
            answer = definition.run(
                batch_parameters={"dataframe": rows}, expectation_parameters=dict(parameters), result_format={"result_format": "BASIC"}
            )
        except Exception as error:
            return [judgement.broken(check, f"{type(error).__name__}: {_first(str(error))}") for check in checks]
    results: dict[int, Any] = {}
    for one in answer.results:
        results[int((one.expectation_config.meta or {}).get("lakelog", -1))] = one
    return [_finding(check, results.get(index)) for index, check in enumerate(checks)]


def _finding(check: Check, found: Any) -> Finding:
    """The finding of a check by what Great Expectations answered."""
    if found is None:
        return judgement.broken(check, "Great Expectations gave no answer")
    told = dict(found.result or {})
    raised = [one for one in _raised(found.exception_info) if one.get("raised_exception") or one.get("exception_message")]
    if not told and (raised or found.success is None):
        said = [str(one.get("exception_message")) for one in raised if one.get("exception_message")]
        return judgement.broken(check, _first(said[0]) if said else "it raised an error")
    failing, checked = told.get("unexpected_count"), told.get("element_count")
    observed = told.get("observed_value")
    examples = [str(one) for one in told.get("partial_unexpected_list") or []][:SHOWN]
    text = "" if observed is None else str(observed)
    if told and observed is None and failing is None and not found.success:
        text = "there is no value to look at"
    if not found.success and failing and check.condition is not None:
        text = f"{failing} of {checked} break it"
    text += f": {', '.join(examples[:3])}" if examples and not found.success else ""
    keys = [] if found.success else [key_text(one) for one in (told.get("details") or {}).get("keys", [])]
    return Finding(
        check.name, check.type, check.severity, PASSED if found.success else FAILED, check.description, text[:500],
        None if checked is None else int(checked), None if failing is None else int(failing), keys,
    )  # fmt: skip


def _raised(info: Any) -> list[Mapping[str, Any]]:
    """What a check raised: one entry, or one for each of its metrics."""
    if not isinstance(info, Mapping):
        return []
    return [info] if "exception_message" in info else [one for one in info.values() if isinstance(one, Mapping)]


def _first(text: str) -> str:
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "...", "File ", "Traceback"))
    ]
    return lines[0][:300] if lines else ""


def _expectations(checks: Sequence[Check]) -> list[Any]:
    """Checks as Great Expectations' objects, made anew: one that was in a suite cannot be used again."""
    try:
        import great_expectations as gx
    except ImportError as error:
        raise NotReady("great-expectations is not installed: pip install 'lakelog[quality]'.") from error
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    from lakelog.quality import expectations  # noqa: F401 - makes lakelog's own known

    known = list_registered_expectation_implementations()
    made = []
    for index, check in enumerate(checks):
        if check.type in AVOIDED:
            raise InvalidConfig(f"{check.where}: {check.type} gives wrong answers with Spark: write {AVOIDED[check.type]}.")
        if check.type not in known:
            near = did_you_mean(check.type, [*OWN, *ROW_WISE, *known])
            raise InvalidConfig(f"{check.where}: there is no expectation {check.type!r}.{near}")
        document = {"type": check.type, "kwargs": dict(check.kwargs), "severity": check.severity, "meta": {"lakelog": index}}
        try:
            suite = gx.ExpectationSuite(name="one", expectations=[document])
        except Exception as error:
            told = " ".join(str(error).split())[:300]
            raise InvalidConfig(f"{check.where}: {check.name} ({check.type}) is not understood: {told}") from error
        if len(suite.expectations) != 1:
            raise InvalidConfig(f"{check.where}: {check.name} ({check.type}) is not understood by Great Expectations.")
        made.append(suite.expectations[0])
    return made


def _context() -> Any:
    """A context that keeps nothing: neither files, nor ids, nor pages."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import DataContextConfig

    memory = {"class_name": "InMemoryStoreBackend"}
    stores = {
        "expectations_store": {"class_name": "ExpectationsStore", "store_backend": memory},
        "checkpoint_store": {"class_name": "CheckpointStore", "store_backend": memory},
        "validation_definition_store": {"class_name": "ValidationDefinitionStore", "store_backend": memory},
        "validation_results_store": {"class_name": "ValidationResultsStore", "store_backend": memory},
    }
    config = DataContextConfig(
        stores=stores, expectations_store_name="expectations_store", checkpoint_store_name="checkpoint_store",
        validation_results_store_name="validation_results_store", data_docs_sites={}, analytics_enabled=False,
        progress_bars={"globally": False, "metric_calculations": False},
    )  # fmt: skip
    return gx.get_context(mode="ephemeral", project_config=config)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without its warnings and logs; those of others stay as they are."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in NOISY]
    for logger, _ in before:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in before:
            logger.setLevel(level)
