"""A lock per table of a path lake: of all writers on this machine, and on those that mount the same file system, one commits at a time.

Delta commits by a rename that must not replace a file. On a local file system it looks first and renames then, which is atomic only within
one Java process: two processes can both be told that they won, and one commit is lost.

The lock is the operating system's (``flock``), on a file below the lake's ``_lakelog/locks``: whatever ends a process releases it. The files
are empty and stay; readers never lock. Tables of catalogs, and roots that are not on this machine's disk, need no lock of ours: their
storage arbitrates, or nothing here can (object_store.py).
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakelog.delta.location import on_this_disk
from lakelog.errors import Conflict, InvalidRequest
from lakelog.model.names import TableRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Seconds that a writer waits for the one before it. A merge or a large append may hold its table for minutes.
PATIENCE = 600.0
# The name of the Conflict with a writer that holds a lock too long: to try again at once would be to wait as long again.
LOCKED = "TABLE_LOCKED"
# How often a waiting writer looks again, in seconds.
PAUSE = 0.02
# What a file system without locks answers.
WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)
_registry = threading.Lock()
_locks: dict[str, _TableLock] = {}


@contextlib.contextmanager
def held(spark: SparkSession | None, table: TableRef, *, creating: bool = False) -> Iterator[None]:
    """Hold a table's lock: no other process and no other thread of this one commits to it with lakelog. A thread may hold it repeatedly.

    A thread that holds it must not wait for another table's; but one that holds a log's may wait for the latest table's, as an import does.

    Args:
        spark: the session; None where delta-rs writes.
        table: the table; without effect where there is no lock for it.
        creating: the lake's folder may have to be made.

    Raises:
        Conflict: another writer held the lock for `PATIENCE` seconds; nothing was written.
        InvalidRequest: the lock's file cannot be written; nothing was written.
    """
    file = lock_file(spark, table)
    if file is None or not (creating or os.path.isdir(os.path.dirname(os.path.dirname(os.path.dirname(file))))):
        yield
        return
    with _registry:
        lock = _locks.setdefault(file, _TableLock(file))
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def lock_file(spark: SparkSession | None, table: TableRef) -> str | None:
    """The file of a table's lock: ``root/_lakelog/locks/orders.bronze`` for ``root/orders/bronze``; None where there is none."""
    path = None if table.path is None else on_this_disk(spark, table.path)
    if path is None:
        return None
    topic, name = os.path.split(path)
    root, topic = os.path.split(topic)
    return os.path.join(root, "_lakelog", "locks", f"{topic}.{name}")


class _TableLock:
    """A table's lock in this process: its threads take turns, and the one whose turn it is holds the file's lock."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.turn = threading.RLock()
        self.depth = 0
        self.descriptor: int | None = None

    def acquire(self) -> None:
        until = time.monotonic() + PATIENCE
        if not self.turn.acquire(timeout=PATIENCE):
            raise self._too_long()
        try:
            if self.depth == 0:
                self.descriptor = self._locked(until)
            self.depth += 1
        except BaseException:
            self.turn.release()
            raise

    def release(self) -> None:
        self.depth -= 1
        if self.depth == 0 and self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
        self.turn.release()

    def _locked(self, until: float) -> int | None:
        """The locked file's descriptor; None on a file system without locks."""
        try:
            import fcntl
        except ImportError:  # Windows
            return None
        while True:
            descriptor = self._opened()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The file may have been deleted by hand since it was opened: then others lock another one.
                if os.path.samestat(os.fstat(descriptor), os.stat(self.file)):
                    return descriptor
            except FileNotFoundError:
                pass
            except BlockingIOError as error:
                if time.monotonic() > until:
                    os.close(descriptor)
                    raise self._too_long() from error
                time.sleep(PAUSE)
            except OSError as error:
                os.close(descriptor)
                if error.errno not in WITHOUT_LOCKS:
                    raise self._unusable(error) from error
                warnings.warn(
                    f"{self.file}: this file system has no locks. Delta cannot arbitrate two writers there: let one process write at a"
                    " time.", stacklevel=2,
                )  # fmt: skip
                return None
            os.close(descriptor)

    def _opened(self) -> int:
        try:
            os.makedirs(os.path.dirname(self.file), exist_ok=True)
            try:
                return os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except PermissionError:
                # Another user's; a lock needs no more than to read it.
                return os.open(self.file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._unusable(error) from error

    def _too_long(self) -> Conflict:
        return Conflict(
            f"Another writer has held {self.file} for {PATIENCE:.0f} seconds: it commits to that table. Nothing was written; try again when it"
            " is done (fuser tells which process it is).",
            name=LOCKED,
        )

    def _unusable(self, error: OSError) -> InvalidRequest:
        return InvalidRequest(
            f"{self.file} cannot be locked: {error.strerror}. Writers of this lake need the right to write there. Nothing was written."
        )
