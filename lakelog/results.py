"""What the verbs answer: frozen values, printed as text by the CLI or as one JSON object by ``--json`` and the jobs."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return {"hex": bytes(value).hex()}
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    return value


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as notebooks show it."""
    import html

    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Result:
    """Base of the results: ``to_dict()`` and ``to_json()``."""

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON types; partition numbers become text keys, times ISO 8601."""
        plain: dict[str, Any] = _plain(self)
        return plain

    def to_json(self) -> str:
        """The result as one line of JSON."""
        return json.dumps(self.to_dict(), default=str)


@dataclass(frozen=True)
class Appended(Result):
    """An append: partition to (first offset, end offset, exclusive); ``version`` is bronze's; None where nothing was written.

    ``repeated``: the token was known, this is the first append's answer. ``expected_offsets_checked``: None when no offset was expected, False
    when the check is off (``check.expected.offsets``). Of a gated topic: how many records were put aside (``quarantined``), warnings (rule to
    records that break it), and the ``run`` of the verdict.
    """

    topic: str
    offsets: dict[int, tuple[int, int]]
    version: int | None
    records: int
    batch: str | None
    token: str | None = None
    repeated: bool = False
    expected_offsets_checked: bool | None = None
    quarantined: int = 0
    warnings: dict[str, int] = field(default_factory=dict)
    run: str | None = None


@dataclass(frozen=True)
class Loaded(Result):
    """A bulk load: partition to (first offset, end offset) of all its records, its chunks, and how many of those stood in the log before.

    ``version`` is bronze's after it, None where all was there. Of a gated topic: warnings (rule to records that break it), and the ``run`` of
    the verdict.
    """

    topic: str
    offsets: dict[int, tuple[int, int]]
    records: int
    chunks: int
    found: int
    token: str
    version: int | None = None
    warnings: dict[str, int] = field(default_factory=dict)
    run: str | None = None


@dataclass(frozen=True)
class Merged(Result):
    """A merge: silver's ``version`` (None when there was nothing to do), the offsets it went from and to (exclusive), and what became of the records.

    ``records`` were folded; ``inserted``, ``updated`` and ``deleted`` count keys (a key that only ever was deleted counts as deleted).
    Records that lost to an earlier one: ``ignored_deletes`` (deletes without a version), ``late_after_delete`` (to the remembered version of a
    deleted key, whose tombstone has expired; ``late_after_delete_examples`` are the first of them: partition, key, offset, and ``lost_to``, the offset
    that the delete had), ``late`` (all others). ``duplicates``: records whose version equals the one they replaced, as
    a batch delivered twice does. ``invalid_versions``: records whose version header is unusable. ``unkeyed``: records without a key, which
    never reach silver. ``remaining``: records not merged yet (``max_records``). ``snapshot``: the id of the snapshot that was taken at the
    end of it (``max.snapshot.interval.ms``, ``max.record.bytes.between.snapshots``); ``snapshot_error``: why one that was due could not be taken
    (error, message, exit_code), while the merge stands. ``run``: of a gated topic that of the verdict.
    """

    topic: str
    version: int | None
    from_offsets: dict[int, int]
    to_offsets: dict[int, int]
    records: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    late: int = 0
    late_after_delete: int = 0
    duplicates: int = 0
    invalid_versions: int = 0
    ignored_deletes: int = 0
    unkeyed: int = 0
    remaining: int = 0
    snapshot: str | None = None
    run: str | None = None
    snapshot_error: dict[str, Any] | None = None
    late_after_delete_examples: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Snapshot(Result):
    """A state of the latest table that can be read and restored: the end offsets it contains (exclusive), by partition, and the epoch.

    ``id`` is both as text (``0@120,98``). ``created``: whether this call made it; False where it was there, or where the log begins above it.
    ``kept_until``: when a name ends (9999-12-31: never); None of a snapshot without a name, which lives by ``snapshot.retention.ms`` and
    ``.count``. ``form``: ``version`` (silver at ``version``) or ``table`` (a copy of its own, ``table``). ``rule``: the one it was made under.
    """

    topic: str
    id: str
    epoch: int
    ends: dict[int, int]
    version: int
    name: str | None = None
    created_at: datetime.datetime | None = None
    kept_until: datetime.datetime | None = None
    note: str | None = None
    rule: str = ""
    form: str = "version"
    table: str | None = None
    automatic: bool = False
    created: bool = False


@dataclass(frozen=True)
class SnapshotDeleted(Result):
    """A snapshot that was deleted, or with ``dry_run`` would be.

    ``warning``: records are gone from the log, and no other snapshot holds them.
    """

    topic: str
    id: str
    name: str | None
    dry_run: bool
    warning: str | None = None


@dataclass(frozen=True)
class Restored(Result):
    """A restore, or with ``dry_run`` what it would do: the state ``to`` (``id``, silver's ``version``) and ``log`` (truncate or keep).

    ``epoch`` and ``ends``: the log's generation and log end offsets after it. ``leaving``: by partition the offsets [first, end) that leave the
    log (their records are kept in quarantine); ``anew``: partitions whose log starts anew at the snapshot's end, since it no longer holds every
    row of it. ``later``: snapshots that lie after it; they stay. ``readers``: registered groups that have read records which leave the log: they
    are told so. ``repeated``: the topic was as this restore leaves it, nothing was done. ``replay``: where the log is kept, by partition the offsets
    [first, end) beyond the snapshot, which the next merge folds again; ``replay_records``: how many records they hold.

    Of a dry run alone: ``records``, how many leave the log, and how many keys will be ``added``, ``changed``, ``removed``.
    """

    topic: str
    to: str
    id: str
    version: int
    log: str
    epoch: int
    ends: dict[int, int]
    leaving: dict[int, tuple[int, int]]
    anew: list[int]
    later: list[str]
    readers: list[str]
    dry_run: bool = False
    repeated: bool = False
    records: int | None = None
    added: int | None = None
    changed: int | None = None
    removed: int | None = None
    replay: dict[int, tuple[int, int]] = field(default_factory=dict)
    replay_records: int = 0


@dataclass(frozen=True)
class Maintained(Result):
    """What a maintenance did: by table the data files that were written together (removed, added), the lake's own tables as ``_lakelog/runs``;
    the snapshots (names, or ids) that ``expired`` and that were ``promoted`` to a table of their own; copies that were ``dropped``; the topic's
    tables that were ``vacuumed``.
    """

    topic: str
    files: dict[str, tuple[int, int]]
    expired: list[str]
    promoted: list[str]
    dropped: list[str]
    vacuumed: list[str]


@dataclass(frozen=True)
class TopicDescription(Result):
    """A topic's identity, types and effective configuration, each setting with its origin (topic, lake or default)."""

    topic: str
    uuid: str
    key: str
    value: str
    partitions: int
    rule: str
    bronze: str
    silver: str
    config: list[dict[str, Any]]
    warnings: dict[str, str]


@dataclass(frozen=True)
class TopicDeleted(Result):
    """A topic that was deleted, or with ``dry_run`` would be, and the tables that stood there."""

    topic: str
    tables: list[str]
    dry_run: bool


@dataclass(frozen=True)
class Verified(Result):
    """What was found: ``problems`` is empty where all is well; ``records`` and ``keys`` were compared, ``commits`` looked at.

    ``differences``: the first keys that are not as the fold has them, each with partition, key, the offset ``expected`` and the one ``found``.
    ``share``: of the keys that were recomputed (0: none, since something else is wrong, or since deletes beyond every snapshot have left a log
    that does not hold all records). ``base``: the snapshot that stood for what is no longer in the log. ``unproved``: why no key could be
    recomputed although nothing is wrong, and what to do.
    """

    topic: str
    records: int
    keys: int
    commits: int
    problems: list[str]
    differences: list[dict[str, Any]] = field(default_factory=list)
    share: float = 1.0
    base: str | None = None
    unproved: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@dataclass(frozen=True)
class Repaired(Result):
    """What a repair found (``problems``) and did (``done``); both are empty where all was well.

    ``epoch`` is the log's generation and ``ends`` its log end offsets afterwards, ``records`` how many the log holds, ``version`` that of the
    latest table that was computed anew.
    """

    topic: str
    problems: list[str]
    done: list[str]
    epoch: int
    ends: dict[int, int]
    records: int
    version: int | None


@dataclass(frozen=True)
class Upgraded(Result):
    """A lake brought up to ``format``: what was ``done``, a sentence each; empty where nothing was to do."""

    root: str
    format: int
    done: list[str]
