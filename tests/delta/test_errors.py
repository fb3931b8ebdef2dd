"""What errors of Spark, Delta and Python become at the door, without Spark."""

from __future__ import annotations

import pytest

from lakelog.delta.errors import door, source_door
from lakelog.errors import Damaged, GateFailed, InvalidRequest, NotFound, NotReady


@pytest.mark.parametrize(
    "error", [OverflowError("date value out of range"), ValueError("year 12000 is out of range"), ValueError("year -3 is out of range")]
)
def test_a_time_that_python_does_not_know_says_how_to_see_it(error: Exception) -> None:
    with pytest.raises(InvalidRequest, match="years 1 to 9999.*CAST"), door("t"):
        raise error


def test_other_wrong_values_pass_as_they_are() -> None:
    with pytest.raises(ValueError, match="is none"), door("t"):
        raise ValueError("the date is none")


@pytest.mark.parametrize(
    ("says", "kind", "shown"),
    [
        (
            "An error occurred while calling o5.sql.\n: org.apache.spark.SparkException: Job aborted\n\tat a.b(C.java)\n"
            "Caused by: java.io.UncheckedIOException: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/a/00003.json at 0", Damaged,
            "ChecksumException: Checksum error",
        ),
        (
            "An error occurred while calling o5.collectToPython.\n: org.apache.spark.SparkException: [STAGE_MATERIALIZATION_MULTIPLE_FAILURES]"
            " Multiple failures (2) in stage materialization:\n[FAILED_READ_FILE.NO_HINT] Encountered error while reading file a.parquet", Damaged,
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file a.parquet",
        ),
        ("(java.io.FileNotFoundException) File file:/a/_delta_log does not exist", NotFound, "t: there is no Delta table or file of that name."),
        ("(java.net.UnknownHostException) bucket.example: Name or service not known", NotReady, "there is no host bucket.example."),
        (
            "[DELTA_VERSION_NOT_FOUND] Cannot time travel Delta table to version 9. Available versions: [2, 3].", NotFound,
            "t: there is no version 9. Its versions are 2 to 3.",
        ),
    ],
)  # fmt: skip
def test_what_java_says_of_files_and_versions(says: str, kind: type[Exception], shown: str) -> None:
    with pytest.raises(kind) as error, door("t"):
        raise RuntimeError(says)
    assert shown in str(error.value)
    assert "calling" not in str(error.value)


@pytest.mark.parametrize("sign", ["TABLE_OR_VIEW_NOT_FOUND", "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "FAILED_READ_FILE.NO_HINT"])
def test_what_a_record_says_is_not_what_spark_says(sign: str) -> None:
    says = f"record 0: n should be int but is [{sign}]"
    with pytest.raises(GateFailed) as error, source_door():
        raise GateFailed(says)
    assert str(error.value) == says
