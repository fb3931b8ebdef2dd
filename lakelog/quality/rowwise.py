"""Great Expectations' own row-wise expectations as SQL conditions, so that they split records as `expect_rows_to_satisfy` does.

A condition says of one row what the expectation says of it: as there, a NULL passes unless the expectation is about NULL, and of a pair what cannot
be compared passes. What ``mostly`` is a share of are the rows that an expectation is about (`applies`). Nothing here imports Great Expectations;
``tests/quality`` holds each condition against its verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakelog.errors import InvalidConfig
from lakelog.model.names import literal, quoted

Arguments = Mapping[str, Any]
COLUMN = "expect_column_values_to_"
PAIR = "expect_column_pair_values_"
ABOUT_NULL = (f"{COLUMN}not_be_null", f"{COLUMN}be_null")
# What every one of them may have beside its own arguments, and what only reports are made by.
COMMON = {"column", "mostly", "row_condition", "condition_parser", "result_format", "catch_exceptions", "windows", "meta"}
# What the values of arguments are, and whether one is such.
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(
        ("column", "column_A", "column_B", "ignore_row_if", "regex", "like_pattern"), ("a text", lambda one: isinstance(one, str))
    ),
    **dict.fromkeys(("strict_min", "strict_max", "or_equal"), ("true or false", lambda one: isinstance(one, bool))),
    "value": ("a number", lambda one: isinstance(one, (int, float)) and not isinstance(one, bool)),
    "value_set": ("a list", lambda one: isinstance(one, list)),
    "regex_list": (
        "a list of texts, at least one",
        lambda one: isinstance(one, list) and one != [] and all(isinstance(x, str) for x in one),
    ),
    "match_on": ("any or all", lambda one: one in ("any", "all")),
}


def _value(value: Any) -> str:
    """A JSON value as a SQL literal."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return literal(value)
    raise InvalidConfig(f"{value!r} is no text, number or boolean, which a row rule compares with.")


def _column(arguments: Arguments, name: str = "column") -> str:
    return quoted(str(arguments[name]))


def _range(column: str, arguments: Arguments, low: str = "min_value", high: str = "max_value") -> str:
    least, most = arguments.get(low), arguments.get(high)
    if least is None and most is None:
        raise InvalidConfig(f"{low} and {high} are both missing.")
    require_order(least, most)
    parts = [f"{column} {'>' if arguments.get('strict_min') else '>='} {_value(least)}"] * (least is not None)
    parts += [f"{column} {'<' if arguments.get('strict_max') else '<='} {_value(most)}"] * (most is not None)
    return " AND ".join(parts)


def require_order(least: Any, most: Any) -> None:
    """Refuse two numbers between which there is none.

    Raises:
        InvalidConfig: naming them.
    """
    if all(isinstance(one, (int, float)) for one in (least, most)) and least > most:
        raise InvalidConfig(f"min_value={least} is greater than max_value={most}: nothing lies between them.")


def _in_set(arguments: Arguments) -> str:
    """Whether the column's value is a member; a NULL in the set is none, as it equals no value."""
    listed = ", ".join(_value(one) for one in arguments["value_set"] if one is not None)
    return f"{_column(arguments)} IN ({listed})" if listed else "FALSE"


def _regex(column: str, pattern: str) -> str:
    return f"{column} RLIKE {literal(pattern)}"


def _regexes(arguments: Arguments) -> str:
    return (" AND " if arguments.get("match_on") == "all" else " OR ").join(
        _regex(_column(arguments), one) for one in arguments["regex_list"]
    )


def _unless_null(arguments: Arguments, condition: str) -> str:
    return f"{_column(arguments)} IS NULL OR ({condition})"


def _ignored(arguments: Arguments) -> str:
    """Whether an expectation about a pair passes over a row."""
    one, other = _column(arguments, "column_A"), _column(arguments, "column_B")
    ignored = {
        "both_values_are_missing": f"{one} IS NULL AND {other} IS NULL",
        "either_value_is_missing": f"{one} IS NULL OR {other} IS NULL",
        "neither": "FALSE",
    }
    when = arguments.get("ignore_row_if", "both_values_are_missing")
    if when not in ignored:
        raise InvalidConfig(f"ignore_row_if={when!r} must be one of {', '.join(ignored)}.")
    return ignored[when]


def _pair(arguments: Arguments, sign: str) -> str:
    one, other = _column(arguments, "column_A"), _column(arguments, "column_B")
    return f"({_ignored(arguments)}) OR coalesce({one} {sign} {other}, TRUE)"


# Type to its own arguments and the condition.
ROW_WISE: dict[str, tuple[set[str], Callable[[Arguments], str]]] = {
    f"{COLUMN}not_be_null": (set(), lambda given: f"{_column(given)} IS NOT NULL"),
    f"{COLUMN}be_null": (set(), lambda given: f"{_column(given)} IS NULL"),
    f"{COLUMN}be_in_set": ({"value_set"}, lambda given: _unless_null(given, _in_set(given))),
    f"{COLUMN}not_be_in_set": ({"value_set"}, lambda given: _unless_null(given, f"NOT {_in_set(given)}")),
    f"{COLUMN}be_between": (
        {"min_value", "max_value", "strict_min", "strict_max"}, lambda given: _unless_null(given, _range(_column(given), given)),
    ),
    f"{COLUMN}match_regex": ({"regex"}, lambda given: _unless_null(given, _regex(_column(given), given["regex"]))),
    f"{COLUMN}not_match_regex": ({"regex"}, lambda given: _unless_null(given, f"NOT {_regex(_column(given), given['regex'])}")),
    f"{COLUMN}match_regex_list": ({"regex_list", "match_on"}, lambda given: _unless_null(given, _regexes(given))),
    f"{COLUMN}not_match_regex_list": ({"regex_list"}, lambda given: _unless_null(given, f"NOT ({_regexes({**given, 'match_on': 'any'})})")),
    f"{COLUMN}match_like_pattern": ({"like_pattern"}, lambda given: _unless_null(given, f"{_column(given)} LIKE {literal(given['like_pattern'])}")),
    f"{COLUMN}be_json_parseable": (set(), lambda given: _unless_null(given, f"try_parse_json({_column(given)}) IS NOT NULL")),
    "expect_column_value_lengths_to_equal": ({"value"}, lambda given: _unless_null(given, f"length({_column(given)}) = {_value(given['value'])}")),
    "expect_column_value_lengths_to_be_between": (
        {"min_value", "max_value", "strict_min", "strict_max"}, lambda given: _unless_null(given, _range(f"length({_column(given)})", given)),
    ),
    f"{PAIR}to_be_equal": ({"column_A", "column_B", "ignore_row_if"}, lambda given: _pair(given, "<=>")),
    f"{PAIR}a_to_be_greater_than_b": (
        {"column_A", "column_B", "ignore_row_if", "or_equal"}, lambda given: _pair(given, ">=" if given.get("or_equal") else ">"),
    ),
}  # fmt: skip


def condition(kind: str, arguments: Arguments) -> str:
    """The SQL condition of a row-wise expectation.

    Args:
        kind: its type, one of `ROW_WISE`.
        arguments: its ``kwargs``.

    Raises:
        InvalidConfig: an argument is unknown, missing, or one that a condition on one row cannot have.
    """
    own, made = ROW_WISE[kind]
    unknown = sorted(set(arguments) - own - (COMMON if "column_A" not in own else COMMON - {"column"}))
    if unknown:
        raise InvalidConfig(
            f"There is no argument {unknown[0]!r}; known: {', '.join(sorted(own | {'column', 'mostly', 'row_condition'}))}."
        )
    for name in sorted(set(arguments) & set(KINDS)):
        what, test = KINDS[name]
        if not test(arguments[name]):
            raise InvalidConfig(f"{name} is {what}, not {arguments[name]!r}.")
    try:
        found = made(arguments)
    except KeyError as error:
        raise InvalidConfig(f"The argument {error.args[0]!r} is missing.") from error
    only = _only(arguments)
    return found if only is None else f"NOT coalesce({only}, FALSE) OR ({found})"


def applies(kind: str, arguments: Arguments) -> str | None:
    """The SQL condition of the rows that a row-wise expectation is about: those of its ``row_condition`` that it does not pass over; None: all."""
    only = _only(arguments)
    parts = [] if only is None else [f"coalesce({only}, FALSE)"]
    if kind.startswith(PAIR):
        parts.append(f"NOT ({_ignored(arguments)})")
    elif kind not in ABOUT_NULL:
        parts.append(f"{_column(arguments)} IS NOT NULL")
    return " AND ".join(parts) or None


def _only(arguments: Arguments) -> str | None:
    """The ``row_condition``."""
    only = arguments.get("row_condition")
    if only is None:
        return None
    if not isinstance(only, str) or arguments.get("condition_parser", "spark") != "spark":
        raise InvalidConfig('row_condition is SQL here, with "condition_parser": "spark".')
    return only
