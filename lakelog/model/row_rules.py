"""Row rules: conditions that each record must meet, as SQL over the topic's flat columns, and how one pass over records judges all of them.

A rule reads the fields of key and value as columns (atomic ones are ``key`` and ``value``), ``_timestamp``, ``_headers``, ``_tombstone``,
``_partition`` and ``_now`` (the verb's time); ``_key`` and ``_value`` are the whole key and value. NULL counts as broken. What a record breaks is
one number, a bit a rule, so that each condition is evaluated once for the split, the counts and the names.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakelog.model.names import quoted
from lakelog.model.records import Types, flat_columns, instant

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# So many rules fit into one number.
MOST = 60
BROKEN = "broken"
# Columns of a row on the way past those that a rule reads, whose names may be any.
HELD = "__lakelog_held_"
# What a rule reads beside the fields of key and value, and where it comes from.
EXTRA = {"_timestamp": "timestamp", "_headers": "headers", "_tombstone": "tombstone", "_partition": "partition", "_offset": "offset",
         "_version": "version"}  # fmt: skip
WHOLE = {"_key": "key", "_value": "value"}


@dataclass(frozen=True)
class RowRule:
    """A condition by its name; ``splits``: a record that breaks it is not let in; ``counts_alone``: to break it is nothing that is told of a record."""

    name: str
    condition: str
    splits: bool = True
    counts_alone: bool = False


@dataclass(frozen=True)
class RowRules:
    """The rules of a batch; ``quarantine``: records that break a splitting rule or an invariant are put aside, in place of refusing the batch."""

    rules: tuple[RowRule, ...] = ()
    quarantine: bool = False

    @property
    def splitting(self) -> int:
        """The bits of the rules that keep a record out."""
        return sum(1 << index for index, rule in enumerate(self.rules) if rule.splits)

    def parted(self) -> tuple[RowRules, RowRules]:
        """Those that only count, and those that keep a record out."""
        counting = tuple(rule for rule in self.rules if not rule.splits)
        return replace(self, rules=counting), replace(self, rules=tuple(rule for rule in self.rules if rule.splits))

    def names(self, *, splitting: bool = False) -> Column:
        """The names of the rules that a judged row breaks, as an array; with ``splitting`` those that keep it out."""
        from pyspark.sql import functions as F

        shown = [(index, rule) for index, rule in enumerate(self.rules) if rule.splits or not (splitting or rule.counts_alone)]
        if not shown:
            return F.array().cast("array<string>")
        return F.array_compact(F.array(*[F.when(bit(index), F.lit(rule.name)) for index, rule in shown]))

    def kept_out(self) -> Column:
        """Whether a judged row breaks a rule that keeps it out."""
        from pyspark.sql import functions as F

        return F.col(BROKEN).bitwiseAND(F.lit(self.splitting)) != 0

    def counts(self) -> list[Column]:
        """How many judged rows break each rule: columns ``rule_0``, ``rule_1``, … of an aggregation."""
        from pyspark.sql import functions as F

        return [F.count_if(bit(index)).alias(f"rule_{index}") for index in range(len(self.rules))]


def bit(index: int) -> Column:
    """Whether a judged row breaks the rule of this index."""
    from pyspark.sql import functions as F

    return F.col(BROKEN).bitwiseAND(F.lit(1 << index)) != 0


def flat(types: Types, held: Sequence[str], now: int, any_row: str, *, prefix: str = "") -> list[Column]:
    """The columns that a rule reads, of rows with ``key``, ``value`` and, as far as ``held`` names them, the sources of `EXTRA`.

    Args:
        types: the topic's.
        held: the columns of the rows.
        now: the verb's time in milliseconds.
        any_row: an integer column that is never NULL, as for `records.instant`.
        prefix: stands before the names of the rows' columns.
    """
    from pyspark.sql import functions as F

    found = {
        name: F.col(f"{prefix}{side}")[field] if field else F.col(f"{prefix}{side}")
        for name, side, field in flat_columns(types.key, types.value)
    }
    taken = {name.lower() for name in found}
    more = {name: F.col(f"{prefix}{source}") for name, source in {**EXTRA, **WHOLE}.items() if source in held and name not in taken}
    time = {"_now": instant(now, f"{prefix}{any_row}")} if "_now" not in taken else {}
    return [column.alias(name) for name, column in {**found, **more, **time}.items()]


def judged(rows: DataFrame, types: Types, rules: RowRules, now: int, *, any_row: str = "partition", unless: str | None = None) -> DataFrame:
    """The rows with `BROKEN`: the bits of the rules that each breaks.

    Args:
        rows: with ``key`` and ``value``.
        types: the topic's.
        rules: at most `MOST`.
        now: the verb's time in milliseconds.
        any_row: as for `flat`.
        unless: a column; where it is not NULL no rule is looked at (a record that breaks an invariant).
    """
    from pyspark.sql import functions as F

    wide = rows.select(
        *[F.col(quoted(name)).alias(f"{HELD}{name}") for name in rows.columns], *flat(types, rows.columns, now, any_row, prefix=HELD)
    )
    none = F.lit(0).cast("bigint")
    bits = [
        F.when(F.coalesce(F.expr(rule.condition), F.lit(False)), none).otherwise(F.lit(1 << index).cast("bigint"))
        for index, rule in enumerate(rules.rules)
    ]
    broken = functools.reduce(lambda one, other: one + other, bits, none)
    if unless is not None:
        broken = F.when(F.col(f"{HELD}{unless}").isNull(), broken).otherwise(none)
    return wide.select(*[F.col(quoted(f"{HELD}{name}")).alias(name) for name in rows.columns], broken.alias(BROKEN))


def counted(rules: RowRules, found: Mapping[str, int]) -> dict[str, int]:
    """Rule to the number of rows that break it, by the columns of `RowRules.counts`."""
    return {rule.name: int(found[f"rule_{index}"] or 0) for index, rule in enumerate(rules.rules)}
