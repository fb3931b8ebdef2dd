"""A request: the records of an append on their way into the log, whatever shape they came in.

It has the columns ``src`` (file, NULL for frames), ``block`` (where the file's split begins), ``line`` and ``row_order`` (rising row
numbers within a Spark partition, before and after blank lines are dropped), ``partition``, ``key``, ``value``, ``headers``,
``timestamp``, ``tombstone``, ``expected_offset``, ``problem`` (``NAME<tab>reason``, NULL for a record that can be read; `REST_OF_FILE` is the name
of one that hides the records behind it) and ``raw`` (the input of a record that cannot be read, where that is wanted).
Input order is (src, block, row_order): files by path, then position in the file, whatever Spark's splits; frames in the order of their partitions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.model.mirroring import Mirrored
from lakelog.model.records import Types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# What no record can be put aside for: those that follow it in its file were not read.
REST_OF_FILE = "REST_OF_FILE"


@dataclass(frozen=True)
class Request:
    """Records on their way into the log: ``rows`` have a request's columns.

    ``repeatable``: they are the same rows in the same order each time they are evaluated: a list; Parquet files, of which Spark itself
    expects that they stay as they are; a frame of such files or of rows held by the driver (plans.py); a frame that its owner has cached.
    ``held``: this process holds them, so they cannot change.
    ``text_files``: those whose lines an error numbers; ``numbered``: ``line`` is the line of the file. ``offsets``: ``line`` is the record's offset in
    the log that it comes from, ``src`` names the partition there; ``mirrored``: that it keeps it.
    """

    rows: DataFrame
    repeatable: bool = False
    held: bool = False
    text_files: tuple[str, ...] = ()
    numbered: bool = False
    offsets: bool = False
    mirrored: Mirrored | None = None


class Requesting(ABC):
    """A source that makes its request itself."""

    @abstractmethod
    def request(self, types: Types, *, raw: bool = False) -> Request:
        """The request for a topic of these types; ``raw``: with the input of records that cannot be read."""
