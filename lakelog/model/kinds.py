"""Types as Delta's schema JSON has them, with the words of Spark's own types, for where Spark is not there to name them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

# What SQL calls the atomic types whose name in JSON is another.
SQL_WORDS = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


@dataclass(frozen=True)
class Field:
    """A field of a STRUCT."""

    name: str
    dataType: Kind


@dataclass(frozen=True)
class Kind:
    """A type: its name in Delta's JSON without arguments, those (``10,2`` of a decimal), and the types within it.

    Names and methods are those of ``pyspark.sql.types``, so that what prints values takes either.
    """

    word: str
    arguments: str = ""
    fields: tuple[Field, ...] = ()
    elementType: Kind | None = None
    keyType: Kind | None = None
    valueType: Kind | None = None

    def typeName(self) -> str:
        """The name of the type, without what is within it."""
        return self.word

    def simpleString(self) -> str:
        """The type as SQL writes it."""
        if self.word == "struct":
            return f"struct<{','.join(f'{field.name}:{field.dataType.simpleString()}' for field in self.fields)}>"
        if self.elementType is not None:
            return f"array<{self.elementType.simpleString()}>"
        if self.keyType is not None and self.valueType is not None:
            return f"map<{self.keyType.simpleString()},{self.valueType.simpleString()}>"
        return f"{SQL_WORDS.get(self.word, self.word)}{f'({self.arguments})' if self.arguments else ''}"

    @cached_property
    def names(self) -> list[str]:
        """The names of a STRUCT's fields."""
        return [field.name for field in self.fields]

    @property
    def scale(self) -> int:
        """The digits behind the point, of a decimal."""
        return int(self.arguments.split(",")[1])

    def __getitem__(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)


def struct(fields: list[tuple[str, Kind]]) -> Kind:
    """A STRUCT of these fields."""
    return Kind("struct", fields=tuple(Field(name, kind) for name, kind in fields))


def from_json(text: str) -> Kind:
    """The type that a schema in Delta's JSON names."""
    return _of(json.loads(text))


def _of(said: Any) -> Kind:
    if isinstance(said, str):
        found = re.fullmatch(r"(\w+)(?:\(([^)]*)\))?", said.strip())
        return Kind(found[1], found[2] or "") if found else Kind(said)
    if said["type"] == "struct":
        return struct([(field["name"], _of(field["type"])) for field in said["fields"]])
    if said["type"] == "array":
        return Kind("array", elementType=_of(said["elementType"]))
    if said["type"] == "map":
        return Kind("map", keyType=_of(said["keyType"]), valueType=_of(said["valueType"]))
    return Kind(str(said["type"]))
