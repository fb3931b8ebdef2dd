"""What a text must look like to be a number or a time: Spark's own casts also take what they have to cut, complete or guess."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.model.records import LTZ

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

UTC = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "+00:00")
DAY = r"\d{4}-\d{1,2}-\d{1,2}"
# Microseconds; zeros beyond them lose nothing.
CLOCK = r"\d{1,2}:\d{1,2}(:\d{1,2}(\.\d{0,6}0*)?)?"
# Three letters say no zone for certain: BST is Dhaka's to Java, London's to most; IST, CST and AST are several zones' too.
ABBREVIATION = r"(?!UTC|GMT)[A-Za-z]{3}\s*\z"
ZONE = rf" ?(Z|[+-]\d{{1,2}}(:?\d{{2}}(:?\d{{2}})?)?|(?!{ABBREVIATION})[A-Za-z][A-Za-z0-9_+/:-]*)"
TIMES = {
    "date": rf"\A\s*{DAY}([ T]00:00(:00(\.0*)?)?)?\s*\z",
    "timestamp": rf"\A\s*{DAY}([ T]{CLOCK}({ZONE})?)?\s*\z",
    "timestamp_ntz": rf"\A\s*{DAY}([ T]{CLOCK})?\s*\z",
}
NO_ZONE = ": three letters are no zone for certain, write an offset (+01:00) or a region (Europe/London)"
NUMBER = r"(?i)\A\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*\z"
NO_NUMBER = r"(?i)\A\s*(nan|[+-]?inf(inity)?)\s*\z"


def spells(text: Column, kind: str) -> Column:
    """Whether a text says all of a time of this type (``date``, ``timestamp``, ``timestamp_ntz``), and no more than that, or is the number that a
    ``decimal(…)`` may be made of; true for other types."""
    from pyspark.sql import functions as F

    if kind.startswith("decimal"):
        return text.rlike(NUMBER)
    return text.rlike(TIMES[kind]) if kind in TIMES else F.lit(True)


def has_more_places(text: Column, scale: int) -> Column:
    """Whether a number's text has more decimal places than a DECIMAL of this scale, which would round it; zeros at its end are none."""
    from pyspark.sql import functions as F

    mantissa = F.regexp_replace(text, "(?i)e.*", "")
    digits = F.regexp_replace(mantissa, "[^0-9]", "")
    # Of a number with an exponent beyond an INT no DECIMAL is made.
    exponent = F.coalesce(F.regexp_extract(text, r"(?i)e([+-]?\d+)", 1).try_cast("int"), F.lit(0))
    zeros = F.length(F.regexp_extract(digits, "(0*)$", 1))
    places = F.length(F.regexp_extract(mantissa, r"\.(\d*)", 1)) - zeros - exponent.cast("bigint")
    return (zeros < F.length(digits)) & (places > scale)


def spells_number(text: Column, value: Column) -> Column:
    """Whether a text says the FLOAT or DOUBLE that was made of it: a number that is not too large for it, NaN or infinity by its name."""
    return (text.rlike(NUMBER) & is_finite(value)) | text.rlike(NO_NUMBER)


def is_finite(value: Column) -> Column:
    """Whether a FLOAT or DOUBLE is a number."""
    from pyspark.sql import functions as F

    return ~F.isnan(value) & (F.abs(value) != F.lit(float("inf")))


def reads_in_utc(spark: SparkSession) -> bool:
    """Whether the session reads a time without a zone as one in UTC; where it does not, `instant_of` does."""
    return spark.conf.get("spark.sql.session.timeZone") in UTC


def instant_of(text: Column) -> Column:
    """The TIMESTAMP that a text says, in UTC where it has no zone, whatever zone the session is in; NULL where it says none."""
    from pyspark.sql import functions as F

    day, clock = F.trim(text).rlike(rf"\A{DAY}\z"), F.trim(text).rlike(rf"\A{DAY}[ T]{CLOCK}\z")
    zoned = F.when(day, F.concat(F.trim(text), F.lit("T00:00:00Z"))).when(clock, F.concat(F.trim(text), F.lit("Z"))).otherwise(text)
    return zoned.try_cast(LTZ)


def abbreviates_zone(text: Column) -> Column:
    """Whether a time's zone is written in three letters that do not say which one it is."""
    return text.rlike(rf"\A\s*{DAY}[ T]{CLOCK} ?{ABBREVIATION}")


def as_text(text: Column) -> Column:
    """What was read as a text, as a table can hold it: itself, or where it is none its octets: ``{"hex": "…"}``."""
    from pyspark.sql import functions as F

    octets = F.concat(F.lit('{"hex": "'), F.lower(F.hex(text)), F.lit('"}'))
    return F.when(F.is_valid_utf8(text), text).otherwise(octets)
