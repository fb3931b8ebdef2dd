"""The settings of a session around a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakelog.delta.statement import during

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The session has the first, and not the second.
BEFORE, WANTED = {"lakelog.test.one": "user's", "lakelog.test.two": None}, {"lakelog.test.one": "a", "lakelog.test.two": "b"}


class Interrupted:
    """A session whose settings are told to it, of which one is interrupted, as by Ctrl-C, before it is set."""

    def __init__(self, spark: SparkSession, at: int) -> None:
        self.spark, self.at, self.told, self.conf = spark, at, 0, self

    def get(self, name: str, default: Any) -> Any:
        return self.spark.conf.get(name, default)

    def set(self, name: str, value: str) -> None:
        self._told()
        self.spark.conf.set(name, value)

    def unset(self, name: str) -> None:
        self._told()
        self.spark.conf.unset(name)

    def _told(self) -> None:
        self.told += 1
        if self.told == self.at:
            raise KeyboardInterrupt


def test_settings_are_set_back_wherever_a_statement_is_interrupted(spark: SparkSession) -> None:
    spark.conf.set("lakelog.test.one", "user's")
    interrupted = []
    for at in range(6):
        session: Any = Interrupted(spark, at)
        try:
            with during(session, WANTED):
                assert {name: spark.conf.get(name) for name in WANTED} == WANTED
        except KeyboardInterrupt:
            interrupted.append(at)
        assert {name: spark.conf.get(name, None) for name in BEFORE} == BEFORE
    # Two are set, then set back.
    assert interrupted == [1, 2, 3, 4]
