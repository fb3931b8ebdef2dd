"""Types of Spark's as Arrow's, and columns of one type as another that a topic was given since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.model.kinds import Kind

if TYPE_CHECKING:
    import pyarrow

# The types of Arrow by their name in Delta's JSON; times are UTC, with microseconds.
ARROWS = {
    "boolean": "bool_", "byte": "int8", "short": "int16", "integer": "int32", "long": "int64", "float": "float32", "double": "float64",
    "string": "string", "binary": "binary", "date": "date32", "void": "null",
}  # fmt: skip


def arrow_of(kind: Kind) -> pyarrow.DataType:
    """A type of Spark's as Arrow's."""
    import pyarrow

    if kind.word == "struct":
        return pyarrow.struct([(field.name, arrow_of(field.dataType)) for field in kind.fields])
    if kind.elementType is not None:
        return pyarrow.list_(arrow_of(kind.elementType))
    if kind.keyType is not None and kind.valueType is not None:
        return pyarrow.map_(arrow_of(kind.keyType), arrow_of(kind.valueType))
    if kind.word == "decimal":
        precision, scale = kind.arguments.split(",")
        return pyarrow.decimal128(int(precision), int(scale))
    if kind.word.startswith("timestamp"):
        return pyarrow.timestamp("us", "UTC" if kind.word == "timestamp" else None)
    return getattr(pyarrow, ARROWS[kind.word])()


def shaped(column: pyarrow.Array, have: Kind, want: Kind) -> pyarrow.Array:
    """A column of one type as another that fields were added to or that is wider, as `model.widening.shaped` does in Spark."""
    if have.simpleString() == want.simpleString():
        return column
    import pyarrow
    from pyarrow import compute

    if have.word != "struct" or want.word != "struct":
        return column.cast(arrow_of(want))
    names = have.names
    fields = [
        shaped(compute.struct_field(column, names.index(field.name)), have[field.name].dataType, field.dataType)
        if field.name in names
        else pyarrow.nulls(len(column), arrow_of(field.dataType))
        for field in want.fields
    ]
    return pyarrow.StructArray.from_arrays(fields, names=want.names, mask=column.is_null())
