"""Avro: schema files, and octets as JSON that the topic's types are then checked against, as strictly as a line of NDJSON.

Octets are read by the schema that they were written with, to their last one. Behind a wire header (a zero octet and the schema's identity in four, as a
schema registry's serializers write it) each identity has a schema of its own: records of others are refused, not read by a schema that may differ.
"""

from __future__ import annotations

import functools
import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakelog.errors import InvalidConfig, NotReady

if TYPE_CHECKING:
    from pyspark.sql import Column

# Octets of a wire header; the identity under which a schema without one is kept.
HEADER, WITHOUT = 5, -1


def schemas(text: str, where: str) -> dict[int, str]:
    """The schemas that a setting names, by identity: ``FILE``, or ``7=FILE;9=FILE`` for records with a wire header.

    Raises:
        InvalidConfig: a file cannot be read, or is no Avro schema.
        NotReady: fastavro is not installed.
    """
    try:
        import fastavro
    except ImportError as error:
        raise NotReady("fastavro is not installed: Avro needs it. Install it with: pip install 'lakelog[kafka]'") from error
    found: dict[int, str] = {}
    for one in text.split(";"):
        identity, file = named(one, where)
        try:
            schema = json.loads(Path(file).read_text(encoding="utf-8"))
            fastavro.parse_schema(schema)
        except OSError as error:
            raise InvalidConfig(f"{where}: {file} cannot be read: {error.strerror}.", setting=where) from error
        except Exception as error:
            raise InvalidConfig(f"{where}: {file} is no Avro schema: {str(error).splitlines()[0][:200]}.", setting=where) from error
        found[identity] = json.dumps(schema)
    return found


def named(text: str, where: str) -> tuple[int, str]:
    """The identity and the file of ``FILE`` or ``7=FILE``.

    Raises:
        InvalidConfig: there is no file, or the identity is no number.
    """
    head, equals, tail = text.strip().partition("=")
    if equals and head.strip().isdecimal() and tail.strip():
        return int(head), tail.strip()
    if equals or not head:
        raise InvalidConfig(
            f"{where}: avro needs a schema file, avro:FILE, or one for each identity of a wire header: avro:7=FILE;9=FILE.", setting=where
        )
    return WITHOUT, head


def as_json(octets: Column, known: Mapping[int, str]) -> Column:
    """Octets as JSON: a STRUCT of ``json`` and ``problem``, of which one is set; both are NULL where there are no octets.

    Cost: a Python worker reads each record, about a tenth as fast as Spark reads JSON.
    """
    from pyspark import cloudpickle
    from pyspark.sql import functions as F

    # Workers of a cluster need not have this package: its code travels with the plan.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    schemas_known = dict(known)
    # Without types: Spark would look for its own kinds of functions in them.
    read = F.udf(lambda one: decoded(one, schemas_known), "json STRING, problem STRING")
    return read.asNondeterministic()(octets)


# ---- within Spark's tasks ----


def decoded(octets: bytes | None, known: Mapping[int, str]) -> tuple[str | None, str | None]:
    """(the record as JSON, what is wrong with it)."""
    if octets is None:
        return None, None
    octets, identity = bytes(octets), WITHOUT
    if WITHOUT not in known:
        if len(octets) < HEADER or octets[0]:
            return None, "has no wire header: a zero octet and the identity of its schema in four"
        identity = int.from_bytes(octets[1:HEADER], "big")
        octets = octets[HEADER:]
        if identity not in known:
            return None, f"was written with schema {identity}, of which there is no file: known are {', '.join(map(str, sorted(known)))}"
    try:
        value, rest = _read(octets, known[identity])
    except Exception as error:
        return None, f"cannot be read by its Avro schema: {type(error).__name__}: {str(error)[:100]}"
    if rest:
        return None, f"has {rest} octets behind what its Avro schema says: it was written with another one"
    return json.dumps(_plain(value), ensure_ascii=False), None


@functools.lru_cache(maxsize=64)
def _parsed(schema: str) -> Any:
    import fastavro

    return fastavro.parse_schema(json.loads(schema))


def _read(octets: bytes, schema: str) -> tuple[Any, int]:
    """A value, and how many octets are left behind it."""
    import fastavro

    stream = io.BytesIO(octets)
    value = fastavro.schemaless_reader(stream, _parsed(schema), None)  # type: ignore[call-arg,unused-ignore]
    return value, len(octets) - stream.tell()


def _plain(value: Any) -> Any:
    """A value as JSON has it, so that nothing of it is lost."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (bytes, bytearray)):
        return {"hex": bytes(value).hex()}
    if isinstance(value, float):
        return value if value - value == 0 else "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
