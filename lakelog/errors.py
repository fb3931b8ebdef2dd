"""What lakelog refuses, named by what the caller must do next.

::

    LakelogError                    exit  retry
    ├── Invalid                        2  no, correct the call, the configuration or the records
    │   ├── InvalidConfig                 INVALID_CONFIG
    │   ├── InvalidRequest                INVALID_REQUEST
    │   ├── InvalidRecords                INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE: a list by record
    │   └── NotReady                      NOT_READY: Java, the jars or an extra are missing
    ├── GateFailed                     3  no, expectations refused it: GATE_FAILED, GATE_BROKEN (one could not be evaluated)
    ├── Refused                        4  read again first; carries ``expected`` and ``actual``: RULE_CHANGED, SOURCE_CHANGED, LOG_MIRRORED,
    │   │                                 STREAM_REWOUND, …
    │   ├── ExpectedOffsetMismatch        EXPECTED_OFFSET_MISMATCH
    │   ├── VersionMismatch               VERSION_MISMATCH
    │   ├── FencedEpoch                   FENCED_EPOCH
    │   └── LogIncomplete                 LOG_INCOMPLETE
    ├── NotFound                       5  lists what there is
    │   ├── TopicNotFound                 UNKNOWN_TOPIC
    │   └── OffsetOutOfRange              OFFSET_OUT_OF_RANGE
    ├── Conflict                      75  yes: another writer won
    └── Damaged                       70  look: a table is not as lakelog left it; OUTCOME_UNKNOWN: an append failed, and its log cannot be read

After any of them no table of the topic has changed, but for a source that lost records while it was appended: ``Damaged`` then names the
commit to take back; and perhaps where the outcome of an append is unknown. ``name`` is Kafka's error name where one fits; names are promised, messages
are not. A new class is added only where a caller would act differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What a lane cannot read, another may: the name of such a `NotReady`.
UNSUPPORTED_FEATURE = "UNSUPPORTED_FEATURE"
# The name of the `Damaged` of an append that failed where nobody can tell whether its commit is in the log.
OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"


class LakelogError(Exception):
    """Base of all: ``name`` (Kafka's error name), ``exit_code`` (of the CLI and the jobs), ``retryable``, ``details``."""

    name = "LAKELOG_ERROR"
    exit_code = 1
    retryable = False

    def __init__(self, message: str, *, name: str | None = None, **details: Any) -> None:
        super().__init__(message)
        if name is not None:
            self.name = name
        self.details: Mapping[str, Any] = details

    def to_dict(self) -> dict[str, Any]:
        """The error as the CLI's ``--json`` and the jobs print it."""
        return {"error": self.name, "message": str(self), "retry": self.retryable, **self.details}


class Invalid(LakelogError):
    """The call, the configuration or the records are wrong."""

    name = "INVALID_REQUEST"
    exit_code = 2


class InvalidConfig(Invalid):
    """An unknown setting, an illegal value, an illegal combination, or a setting that cannot be changed any more."""

    name = "INVALID_CONFIG"


class InvalidRequest(Invalid):
    """An argument of the call is wrong."""


class InvalidRecords(Invalid):
    """Records were refused, and with them the whole batch.

    ``records`` are the positions in the request (first 20), ``problems`` the same with a reason each, ``count`` how many there are.
    """

    name = "INVALID_RECORD"

    def __init__(self, message: str, *, name: str = "INVALID_RECORD", problems: Sequence[Mapping[str, Any]], count: int) -> None:
        records = [problem["record"] for problem in problems]
        super().__init__(message, name=name, records=records, count=count, problems=list(problems))
        self.records = records
        self.problems = list(problems)
        self.count = count


class NotReady(Invalid):
    """Java, the Delta jars or a Python extra are missing or unusable; ``lakelog doctor`` tells all of it."""

    name = "NOT_READY"


class GateFailed(LakelogError):
    """Expectations refused the records."""

    name = "GATE_FAILED"
    exit_code = 3


class Refused(LakelogError):
    """A condition said no. Read the state again before deciding."""

    name = "REFUSED"
    exit_code = 4

    def __init__(self, message: str, *, name: str | None = None, expected: Any = None, actual: Any = None, **details: Any) -> None:
        super().__init__(message, name=name, expected=expected, actual=actual, **details)
        self.expected = expected
        self.actual = actual


class ExpectedOffsetMismatch(Refused):
    """A conditional append met another log end (KIP-27, SEMANTICS 70): nothing of the request was written."""

    name = "EXPECTED_OFFSET_MISMATCH"

    def __init__(self, message: str, *, partition: int, record: int, expected: int, actual: int, duplicate_of: int | None) -> None:
        super().__init__(message, expected=expected, actual=actual, partition=partition, record=record, duplicate_of=duplicate_of)
        self.partition = partition
        self.record = record
        self.duplicate_of = duplicate_of


class VersionMismatch(Refused):
    """Silver is not at the version the caller stated."""

    name = "VERSION_MISMATCH"


class FencedEpoch(Refused):
    """The writer belongs to an older generation of the log than the topic."""

    name = "FENCED_EPOCH"


class LogIncomplete(Refused):
    """The log no longer holds every record that the operation would need."""

    name = "LOG_INCOMPLETE"


class NotFound(LakelogError):
    """What was named does not exist; ``existing`` lists what there is."""

    name = "NOT_FOUND"
    exit_code = 5


class TopicNotFound(NotFound):
    """No such topic in the lake."""

    name = "UNKNOWN_TOPIC"


class OffsetOutOfRange(NotFound):
    """A read below the log start or beyond the log end."""

    name = "OFFSET_OUT_OF_RANGE"


class Conflict(LakelogError):
    """Another writer won, again and again: try later."""

    name = "CONFLICT"
    exit_code = 75
    retryable = True


class Damaged(LakelogError):
    """A table is not as lakelog left it. Look before going on."""

    name = "DAMAGED"
    exit_code = 70
