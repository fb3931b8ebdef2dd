"""Files of a directory into a topic's log: each once, for good, in the order of their names, in batches whose ledger entries commit with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakelog.errors import FencedEpoch, LakelogError, Refused
from lakelog.inputs.directory import Content, File, content_of, is_still, listed
from lakelog.inputs.sources import file_format
from lakelog.log import ledger
from lakelog.log.ledger import Entry, SourceToken
from lakelog.log.tail import log_end
from lakelog.results import Appended
from lakelog.running_results import Taken, TakenBatch
from lakelog.sources.configured import DirectorySource
from lakelog.topic import Topic

# So many files, and octets of files, are one append at most.
BATCH_FILES, BATCH_OCTETS = 200, 256 << 20
# An entry is as old as its file where it was made this much later: the times of changes are rough in some file systems.
SURELY_LATER_MS = 3000
# Names whose order is the same as that of their addresses, by which Spark orders the files of one append.
PLAIN = re.compile(r"[A-Za-z0-9._/-]+")


@dataclass(frozen=True)
class Listing:
    """What lies in the directory: files to be taken, how many the log holds already, names that are passed over.

    ``epoch``: the log's, of which this is said: a restore takes back what the ledger says.
    """

    new: list[File]
    known: int
    passed_over: list[str]
    epoch: int


def look(topic: Topic, source: DirectorySource) -> Listing:
    """What of a directory is to be taken.

    Raises:
        NotFound: there is no such directory.
        Refused: a file is no longer what was taken under its name (SOURCE_FILE_CHANGED); it is named.

    Cost: the directory is listed, the ledger read by one small Spark query. Files that were changed, by their time or size, since they were
    taken are read.
    """
    epoch = log_end(topic.log).epoch
    taken = ledger.entries(topic.log, *source.identities)
    new, known, passed_over = [], 0, []
    for file in listed(source.directory, recursive=source.recursive):
        if not source.takes(file.name):
            continue
        if file.name in taken:
            require_same(topic.name, source, file, taken[file.name])
            known += 1
        elif source.is_unfinished(file.name) or not file.size:
            passed_over.append(file.name)
        else:
            new.append(file)
    return Listing(new, known, passed_over, epoch)


def require_same(topic: str, source: DirectorySource, file: File, entry: Entry) -> None:
    """Refuse a file that is not the one that was taken under its name. Cost: none where its size and time are as they were; else it is read."""
    if file.size == entry.size and file.modified == entry.modified and file.modified // 1_000_000 < entry.taken_ms - SURELY_LATER_MS:
        return
    content = content_of(file).digest
    if content == entry.content:
        return
    raise Refused(
        f"{topic}: {file.path} is no longer the file that was taken under this name: {entry.size} octets then, {file.size} now, with another"
        " content. Nothing was written. If its records are to be appended too, give the file another name; else put the old content back, or"
        " move the file out of the directory.",
        name="SOURCE_FILE_CHANGED", expected=entry.content, actual=content, source=str(source), file=file.name,
    )  # fmt: skip


def take(topic: Topic, source: DirectorySource, *, tell: Callable[[int, int], None] = lambda done, total: None) -> Taken:
    """Append the files of a directory that the topic's log does not hold yet.

    Args:
        topic: the topic.
        source: the directory.
        tell: called with (files done, files in all) after each append.

    Raises:
        What `look` and `Topic.append` name; files before the one that was refused are in the log: ``taken`` in its details says which.

    Cost: as `look`; each new file is read twice, for its digest and by Spark, which keeps it in memory or on local disk; an append for each batch
    of files of one format. One file a batch
    where records may be put aside (``quality.on.failure``), of Parquet, and of CSV whose columns are not the same.
    """
    done: list[TakenBatch] = []
    listing = look(topic, source)
    try:
        # Each time another process is first, there is less left to be taken.
        while True:
            total, count = len(listing.new), 0
            for batch in _batches(topic, source, listing.new):
                answer = _append(topic, source, batch, listing.epoch)
                if answer is None:
                    listing = look(topic, source)
                    break
                done.append(_batch(answer, batch))
                count += len(batch)
                tell(count, total)
            else:
                return _taken(topic.name, source, done, listing)
    except LakelogError as error:
        taken = _taken(topic.name, source, done, listing)
        error.details = {**error.details, "taken": taken.to_dict()}
        if done:
            error.args = (f"{error} Files of {source} in the log, which are not taken again: {taken.files}.",)
        raise


def _append(topic: Topic, source: DirectorySource, batch: Mapping[str, tuple[File, Content]], epoch: int) -> Appended | None:
    """The append of a batch; None where what is left must be looked at again (`appended`)."""

    def unchanged() -> None:
        for file, _ in batch.values():
            if not is_still(file):
                raise Refused(
                    f"{topic.name}: {file.path} was changed while it was read: somebody is still writing it. Nothing of it was written. Write files"
                    " under a name that begins with _ or ends in .tmp, and rename them when they are complete; then run again.",
                    name="SOURCE_CHANGED", source=str(source), file=file.name,
                )  # fmt: skip

    entries = [Entry(name, file.size, content.digest, file.modified) for name, (file, content) in batch.items()]
    return appended(
        topic, [file.path for file, _ in batch.values()], SourceToken.of(source.identity, entries, unchanged), epoch, format=source.format,
        delimiter=source.delimiter, encoding=source.encoding, null=source.null,
    )  # fmt: skip


def appended(topic: Topic, records: Any, token: SourceToken | None, epoch: int, **how: Any) -> Appended | None:
    """An append of what the ledger did not hold when the log was in an epoch.

    Returns:
        None where another process took some of it meanwhile, or the log was restored, and the ledger with it: look again what is left.
    """
    try:
        answer = topic.append(records, token=token, epoch=epoch, **how)
    except FencedEpoch:
        return None
    return None if answer.repeated else answer


def _batches(topic: Topic, source: DirectorySource, files: list[File]) -> Iterator[dict[str, tuple[File, Content]]]:
    """The files in their order, in runs that are one append each; each file is read when its batch is made."""
    alone = bool(topic.config.text("quality.suites").strip()) and topic.config.text("quality.on.failure") == "quarantine"
    batch: dict[str, tuple[File, Content]] = {}
    kind: object = None
    octets = 0
    for file in files:
        content = content_of(file)
        own = None if alone or not PLAIN.fullmatch(file.name) else _kind(source, file, content)
        if batch and (own is None or own != kind or len(batch) >= BATCH_FILES or octets + file.size > BATCH_OCTETS):
            yield batch
            batch, octets = {}, 0
        batch[file.name] = (file, content)
        kind, octets = own, octets + file.size
    if batch:
        yield batch


def _kind(source: DirectorySource, file: File, content: Content) -> object:
    """Files of the same kind may be one append; None: only alone."""
    form = file_format([file.path], source.format)
    if form == "ndjson":
        return form
    plain = form == "csv" and source.encoding == "utf-8" and not file.name.endswith(".gz")
    head = content.head or b""
    # A quoted name may go on in the next line, and names may stand behind blank lines.
    return (form, head) if plain and b'"' not in head and head.strip(b"\xef\xbb\xbf \t\r") else None


def _batch(answer: Appended, batch: Mapping[str, tuple[File, Content]]) -> TakenBatch:
    octets = sum(file.size for file, _ in batch.values())
    return TakenBatch(list(batch), octets, answer.version, answer.records, answer.offsets, answer.quarantined, answer.run)


def _taken(topic: str, source: DirectorySource, done: list[TakenBatch], listing: Listing) -> Taken:
    return Taken(
        topic, str(source), sum(len(one.names) for one in done), sum(one.octets for one in done), sum(one.records for one in done),
        joined([one.offsets for one in done]), done, listing.known, listing.passed_over,
    )  # fmt: skip


def joined(spans: list[dict[int, tuple[int, int]]]) -> dict[int, tuple[int, int]]:
    """By partition, from the first of some offsets to the end of the last; those of other writers may lie between them."""
    found: dict[int, tuple[int, int]] = {}
    for one in spans:
        for index, (first, end) in one.items():
            found[index] = (min(first, found[index][0]), max(end, found[index][1])) if index in found else (first, end)
    return dict(sorted(found.items()))
