"""How octets of a message become keys and values of the declared types: as they are, JSON, Avro, or Debezium's changes of rows.

JSON is as strict as NDJSON: nothing is rounded, cut or guessed, and a field that the topic does not have is refused. What cannot be decoded is an
invalid record, which refuses the batch or is put aside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakelog.errors import InvalidConfig, InvalidRequest
from lakelog.formats import avro
from lakelog.formats.fitting import fitted
from lakelog.formats.ndjson import END, is_whole, lone_surrogate
from lakelog.formats.texts import reads_in_utc
from lakelog.formats.variant import from_variant
from lakelog.model.config import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

SIDES = ("key", "value")
FORMS = ("json", "avro", "debezium")
# What Debezium's op says: rows that are there, and rows that are gone.
ROWS, GONE = ("c", "r", "u"), "d"


@dataclass(frozen=True)
class Decoded:
    """Columns of a decoded side: the value, what is wrong with it (NULL where nothing is); of a change whether it is a delete, and its time (ms)."""

    value: Column
    problem: Column
    deleted: Column | None = None
    ms: Column | None = None


@dataclass(frozen=True)
class Decoding:
    """How the two sides of messages are decoded: ``forms`` by side, and the Avro schemas by side and identity (`avro.schemas`)."""

    forms: Mapping[str, str] = field(default_factory=dict)
    schemas: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, said: Mapping[str, str], where: str) -> Decoding:
        """What a setting says, ``{value = "json"}``, with its schema files read.

        Raises:
            InvalidConfig: a side or a form is unknown, or a schema file is wrong.
        """
        forms = {side: form(side, text, where) for side, text in said.items()}
        read = {side: avro.schemas(said[side].partition(":")[2], f"{where}.{side}") for side, one in forms.items() if one == "avro"}
        return cls(forms, read)

    def side(self, rows: DataFrame, side: str, kind: DataType) -> tuple[DataFrame, Decoded]:
        """A side of messages decoded: the rows, with columns of their own where it needs them, and what they give.

        Raises:
            InvalidRequest: octets cannot be of the topic's type as they are.
        """
        from pyspark.sql import functions as F

        found = self.forms.get(side)
        if found is None:
            return rows, _as_they_are(side, kind)
        zoned = not reads_in_utc(rows.sparkSession)
        text, wrong = F.col(side).cast("string"), F.lit(None).cast("string")
        if found == "avro":
            rows = rows.withColumn(f"{side}_avro", avro.as_json(F.col(side), self.schemas[side]))
            text, wrong = F.col(f"{side}_avro.json"), F.col(f"{side}_avro.problem")
        rows = rows.withColumn(f"{side}_text", text).withColumn(f"{side}_wrong", F.concat(F.lit(f"{side} "), wrong))
        framed = F.try_parse_json(F.concat(F.lit('{"":'), f"{side}_text", F.lit(f',"{END}":0}}')))
        rows = rows.withColumn(f"{side}_halves", F.try_variant_get(framed, "$", "map<string,variant>"))
        whole = F.when(is_whole(F.col(f"{side}_halves")), F.try_element_at(f"{side}_halves", F.lit("")))
        rows = rows.withColumn(f"{side}_json", whole)
        if found == "debezium":
            rows = rows.withColumn(f"{side}_json", _payload(F.col(f"{side}_json")))
        problem = F.coalesce(F.col(f"{side}_wrong"), _unreadable(side))
        if found == "debezium" and side == "value":
            return rows, _change(problem, kind, zoned)
        value, unfit = from_variant(F.col(f"{side}_json"), kind, side, zoned=zoned)
        return rows, Decoded(value, F.coalesce(problem, unfit))


def form(side: str, text: str, where: str) -> str:
    """The form that a setting names for a side.

    Raises:
        InvalidConfig: it is unknown.
    """
    if side not in SIDES:
        raise InvalidConfig(f"{where}: there is no side {side}.{did_you_mean(side, SIDES)} Messages have a key and a value.", setting=where)
    found, _, more = text.partition(":")
    if found not in FORMS or (more and found != "avro"):
        hint = did_you_mean(found, FORMS) if found not in FORMS else ""
        raise InvalidConfig(
            f"{where}.{side}: {text} is unknown.{hint} Forms: json, debezium, avro:FILE, avro:ID=FILE;ID=FILE.", setting=where
        )
    if found == "avro":
        for one in more.split(";"):
            avro.named(one, f"{where}.{side}")
    return found


def _as_they_are(side: str, kind: DataType) -> Decoded:
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType

    if kind.simpleString() not in ("binary", "string"):
        raise InvalidRequest(
            f"The topic's {side} is {kind.simpleString()}, a message has octets: say how they are decoded, for example decode={{'{side}': 'json'}}"
            f' (lakelog.toml: decode = {{{side} = "json"}}). Forms: json, debezium, avro:FILE.'
        )
    value, problem = fitted(F.col(side), BinaryType(), kind, side, text=False)
    return Decoded(value, F.lit(None).cast("string") if problem is None else problem)


def _unreadable(side: str) -> Column:
    """What makes a side no JSON; NULL where it is, or where there is nothing."""
    from pyspark.sql import functions as F

    text = F.col(f"{side}_text")
    problem = F.when(~F.is_valid_utf8(text), f"{side} is not UTF-8 text")
    problem = problem.when(text.isNotNull() & F.col(f"{side}_halves").isNull(), f"{side} is not JSON")
    problem = problem.when(text.isNotNull() & ~is_whole(F.col(f"{side}_halves")), f"{side} is not one JSON value")
    return problem.when(lone_surrogate(text), f"{side} has half of a surrogate pair (\\ud800 to \\udfff), which is no text")


def _payload(json: Column) -> Column:
    """A message of Kafka Connect without the schema that its converter may put around it."""
    from pyspark.sql import functions as F

    fields = F.try_variant_get(json, "$", "map<string,variant>")
    wrapped = (F.size(fields) == 2) & F.map_contains_key(fields, "schema") & F.map_contains_key(fields, "payload")
    return F.when(F.coalesce(wrapped, F.lit(False)), F.try_element_at(fields, F.lit("payload"))).otherwise(json)


def _change(problem: Column, kind: DataType, zoned: bool) -> Decoded:
    """Debezium's change of a row: what it is afterwards, or, with the flag of a tombstone, what it was before it was deleted."""
    from pyspark.sql import functions as F

    json = F.col("value_json")
    fields = F.try_variant_get(json, "$", "map<string,variant>")
    op = F.try_variant_get(json, "$.op", "string")
    deleted = F.coalesce(op == GONE, F.lit(False))
    row = F.when(deleted, F.try_element_at(fields, F.lit("before"))).otherwise(F.try_element_at(fields, F.lit("after")))
    ms = F.try_variant_get(json, "$.ts_ms", "bigint")
    there = F.col("value").isNotNull()
    wrong = F.when(there & op.isNull(), "value is no change of Debezium's: it has no op")
    wrong = wrong.when(
        there & ~op.isin(*ROWS, GONE), F.concat(F.lit("value: op "), op, F.lit(" is no change of a row, as c, r, u and d are"))
    )
    empty = row.isNull() | (F.schema_of_variant(row) == "VOID")
    wrong = wrong.when(there & ~deleted & empty, F.concat(F.lit("value: op "), op, F.lit(" has no row after it")))
    value, unfit = from_variant(row, kind, "value", zoned=zoned)
    return Decoded(value, F.coalesce(problem, wrong, unfit), deleted, ms)
