"""The end of what a session is doing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lakelog.delta import stopping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_query_that_is_cancelled_ends_and_the_session_stays(spark: SparkSession) -> None:
    ended: list[BaseException] = []

    def ask() -> None:
        try:
            # It takes minutes, and ends by itself where it is not cancelled.
            spark.sql("SELECT sum(a.id * b.id) FROM range(1000000) a CROSS JOIN range(1000000) b").collect()
        except Exception as error:
            ended.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    for _ in range(60):
        # Until it has begun there is nothing to cancel. From a thread of its own: of the caller's the connection to Java is closed.
        cancelling = threading.Thread(target=stopping.cancel, args=(spark,))
        cancelling.start()
        cancelling.join()
        asking.join(1)
        if not asking.is_alive():
            break
    assert len(ended) == 1, "it was cancelled"
    assert "CANCEL" in str(ended[0]).upper(), ended
    assert spark.range(3).count() == 3
