"""The ledger of sources: what of a source's files is in the log, for good, each entry committed with the records it speaks of.

An entry is a control row beside the tokens (partition -1), in one of 16 directories of its own, by its source: only appends from the same source
conflict. Unlike a token it is never forgotten; a restore that cuts the records out of the log takes the entry with them, so that the file may be
taken again, and one that brings the records back brings the entry back (withdrawn.py). Cleaning and truncating the log leave it. A topic that is
imported begins with an empty ledger, as it does without tokens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakelog.delta import tables
from lakelog.delta.statement import interpreted
from lakelog.inputs.identity import InputIdentity
from lakelog.log.rows import log_rows
from lakelog.log.tokens import SEGMENTS, TOKEN_PARTITION, Token, answer
from lakelog.model.topic_log import TopicLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TYPE = "source"


@dataclass(frozen=True)
class Entry:
    """What was taken of a source: its name within the source, octets, SHA-256 of the content, time of its last change (ns); ``taken_ms``: when.

    ``more``: what the source needs to go on behind it.
    """

    name: str
    size: int
    content: str
    modified: int = 0
    taken_ms: int = 0
    more: Mapping[str, Any] | None = None


def _unchanged() -> None:
    """Nothing is known of the input."""


@dataclass(frozen=True)
class SourceToken(Token):
    """The token of an append that takes entries of a source: it is refused where the log holds one of them, however long ago.

    ``unchanged``: raises where the input is no longer what the entries say.
    """

    source: str = ""
    entries: tuple[Entry, ...] = ()
    unchanged: Callable[[], None] = _unchanged

    @classmethod
    def of(cls, source: str, entries: Sequence[Entry], unchanged: Callable[[], None] = _unchanged) -> SourceToken:
        """The token for some entries; the same entries have the same."""
        whole = hashlib.sha256("\n".join([source, *(f"{one.name}\t{one.size}\t{one.content}" for one in entries)]).encode())
        return cls(f"source-{whole.hexdigest()}", source, tuple(entries), unchanged)

    @property
    def segment(self) -> int:
        """The directory of its rows."""
        return directory_of(self.source)

    @property
    def places(self) -> dict[str, int]:
        """The digest of each entry's name to its place."""
        return {digest: int(digest[:16], 16) >> 1 for digest in (_digest(self.source, one.name) for one in self.entries)}

    def guard(self, rows: str, log: TopicLog, now: int) -> str:
        """The condition that the log (``rows``: how SQL names it) holds none of the entries, for the INSERT that writes them."""
        places = self.places
        return (
            f"(SELECT count(*) FROM {rows} WHERE partition = {TOKEN_PARTITION} AND segment = {self.segment}"  # noqa: S608
            f" AND offset IN ({', '.join(map(str, places.values()))})"
            f" AND get_json_object(control, '$.digest') IN ({', '.join(repr(digest) for digest in places)})) = 0"
        )

    def rows(
        self, batch: str, epoch: int, offsets: Mapping[int, tuple[int, int]], records: int, ends: Mapping[int, int]
    ) -> list[tuple[Any, ...]]:
        """A control row for each entry. One without records has its place in the log too, so that a restore to before it takes it back."""
        found = []
        offsets = offsets or {index: (end, end) for index, end in ends.items()}
        for one, (digest, place) in zip(self.entries, self.places.items(), strict=True):
            content = {
                "type": TYPE, "source": self.source, "name": one.name, "digest": digest, "size": one.size, "content": one.content,
                "modified": one.modified, "more": dict(one.more or {}), **answer(offsets, records),
            }  # fmt: skip
            found.append((TOKEN_PARTITION, self.segment, place, True, epoch, batch, json.dumps(content, sort_keys=True)))
        return found

    def remembered(self, log: TopicLog, now: int) -> dict[str, Any] | None:
        """The answer of an append that took one of these entries, if the log holds one. Cost: one small Spark query."""
        from pyspark.sql import functions as F

        places = self.places
        rows = _rows(log, self.source).filter(F.col("offset").isin(list(places.values()))).select("batch", "control")
        with tables.door(log.table), interpreted(log.spark):
            found = rows.collect()
        for row in found:
            said = json.loads(row["control"])
            if said["digest"] in places:
                offsets = {int(index): (int(low), int(high)) for index, (low, high) in said["offsets"].items() if low < high}
                return {"batch": row["batch"], "records": int(said["records"]), "offsets": offsets}
        return None

    def forgotten(self, log: TopicLog, now: int) -> int | None:
        """None: an entry is never forgotten."""
        return None

    @property
    def knows_input(self) -> bool:
        """Whether entries have the digest of a file that somebody may exchange."""
        return self.unchanged is not _unchanged

    def require_unchanged(self) -> None:
        """Refuse an input that is no longer what the entries say."""
        self.unchanged()


@dataclass(frozen=True)
class InputToken(Token):
    """The token of an append of files that is made of what they hold: it is refused where they are not what they were when it was made.

    No entry of the ledger: it is kept, and forgotten, as any other token. One that an older lakelog wrote for the same files is the same.
    """

    identity: InputIdentity = InputIdentity("")

    @classmethod
    def of(cls, identity: InputIdentity) -> InputToken:
        """The token for files."""
        return cls(identity.text, identity)

    def remembered(self, log: TopicLog, now: int) -> dict[str, Any] | None:
        """As `Token.remembered`. Cost: one more small Spark query where the files are not named in the order in which they are read."""
        earlier = self.identity.earlier
        return super().remembered(log, now) or (None if earlier is None else Token(earlier).remembered(log, now))

    @property
    def knows_input(self) -> bool:
        """Yes: the files."""
        return True

    def require_unchanged(self) -> None:
        """Refuse files that are no longer what they were."""
        self.identity.require_unchanged()


def entries(log: TopicLog, *source: str) -> dict[str, Entry]:
    """What the log holds of a source, by name; of one that is known by several identities, the newest entry of a name.

    Cost: one small Spark query over the directories of these identities.
    """
    from pyspark.sql import functions as F

    rows = _rows(log, *source).select("control", F.unix_millis("appended_at").alias("ms"))
    with tables.door(log.table), interpreted(log.spark):
        listed = [(json.loads(row["control"]), row["ms"]) for row in rows.collect()]
    found = [
        Entry(said["name"], said["size"], said["content"], said["modified"], said.get("taken", ms), said["more"])
        for said, ms in listed
        if said["source"] in source
    ]
    return {one.name: one for one in sorted(found, key=lambda one: one.taken_ms)}


def sources(log: TopicLog) -> list[str]:
    """The sources of which the log holds entries, sorted. Cost: one small Spark query over the directories of all."""
    from pyspark.sql import functions as F

    rows = log_rows(log).filter((F.col("partition") == TOKEN_PARTITION) & F.col("segment").between(SEGMENTS, 2 * SEGMENTS - 1))
    with tables.door(log.table), interpreted(log.spark):
        found = rows.select(F.get_json_object("control", "$.source").alias("source")).distinct().collect()
    return sorted(str(row["source"]) for row in found)


def directory_of(source: str) -> int:
    """The directory of a source's entries: behind those of the tokens."""
    return SEGMENTS + int(hashlib.sha256(source.encode()).hexdigest()[:8], 16) % SEGMENTS


def _rows(log: TopicLog, *source: str) -> DataFrame:
    from pyspark.sql import functions as F

    directories = sorted({directory_of(one) for one in source})
    return log_rows(log).filter((F.col("partition") == TOKEN_PARTITION) & F.col("segment").isin(directories))


def _digest(source: str, name: str) -> str:
    return hashlib.sha256(f"{source}\n{name}".encode()).hexdigest()
