"""A topic's settings and types changed: what may be changed, and the steps of a change of types."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakelog.delta import table_properties, tables
from lakelog.delta.table_properties import PREFIX, TYPES
from lakelog.errors import Conflict, Damaged, InvalidConfig
from lakelog.latest import evolution, views
from lakelog.latest.progress import progress
from lakelog.log import state
from lakelog.log.tail import LogEnd, log_end
from lakelog.model import config
from lakelog.model.config import RULE_SETTINGS
from lakelog.model.log_state import CONFIGURE, Intent
from lakelog.model.ordering import OrderingRule
from lakelog.model.records import Types, flat_columns, nullable
from lakelog.model.topic_log import TopicLog
from lakelog.model.widening import plan
from lakelog.snapshots import keeping

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

ATTEMPTS = 20


def require_rule(log: TopicLog, rule: OrderingRule) -> None:
    """Refuse another ordering rule where the log lacks records: the rebuild that it takes would not find them. The rule that silver was made under
    takes none.

    Raises:
        LogIncomplete: naming what is gone.

    Cost: of another rule that of `progress`, and one count over the log.
    """
    if rule == log.rule:
        return
    with contextlib.suppress(Damaged):
        if progress(log).rule == rule:
            return
    state.require_whole(log, log.name, log_end(log))


def change_settings(log: TopicLog, stored: Mapping[str, str], settings: Mapping[str, Any], lake: Mapping[str, str], *, now: int) -> None:
    """Change a topic's settings (None removes one).

    Args:
        log: the topic.
        stored: the settings it has of its own.
        settings: name to value.
        lake: the lake's settings.
        now: the time in milliseconds.

    Raises:
        InvalidConfig: unknown, illegal or fixed settings, or a lower ``snapshot.retention.ms`` than a kept snapshot needs; nothing was changed.
        LogIncomplete: another rule is asked for than silver was made under, but the log no longer holds every record; nothing was changed.

    Cost: one commit on bronze, which aborts appends under way (two where settings are removed too); one on silver where it carries the
    setting as a property of its own. Killed in between, the next merge makes silver follow.
    """
    after, changes = config.changed(stored, settings, lake)
    rule = OrderingRule.from_config(after)
    rule.version_type(log.types.value)
    if set(settings) & set(RULE_SETTINGS):
        require_rule(log, rule)
    keeping.require_longer(log, after, now=now)
    table_properties.change(log.spark, log.table, {PREFIX + name: text for name, text in changes.items()})
    keeping.follow(log, after, now=now)


def widen(log: TopicLog, value: DataType, *, now: int) -> None:
    """Give a topic a wider value type.

    Raises:
        InvalidConfig: the type is not wider, or its columns clash with the key's; nothing was changed.
        Conflict: other operations were first again and again.

    Cost: an intent, opened and closed (a small file per partition each), and one metadata commit per table and changed field; no data file
    is rewritten.
    """
    plan(log.types.value, value)
    flat_columns(log.types.key, value)
    log.rule.version_type(value)
    from pyspark.sql.types import StructType

    arguments = {"value": StructType().add("value", value).jsonValue()}
    for _ in range(ATTEMPTS):
        end = log_end(log)
        state.require_writable(log, end)
        # Another change of types may have been first: they change under an intent alone, so these hold for that end.
        plan(_value_type(log), value)
        intent = Intent(CONFIGURE, uuid.uuid4().hex, arguments)
        states = {index: tail.state.next(intent.id, intent=intent) for index, tail in end.tails.items()}
        if state.change_state(log, end, states, "intent", now=now):
            return carry_out(log, log_end(log), intent, now=now)
    raise Conflict(f"{log.name}: other writers were first {ATTEMPTS} times in a row. Nothing was changed; try again later.")


def carry_out(log: TopicLog, end: LogEnd, intent: Intent, *, now: int) -> None:
    """Finish a change of types that was begun: bronze first, then what the topic says of itself, silver, the views. Again, and nothing changes.

    Raises:
        InvalidConfig: bronze's values cannot be of that type; the operation is closed, and nothing was changed.
    """
    from pyspark.sql.types import StructType

    wanted = StructType.fromJson(json.loads(json.dumps(intent.arguments["value"])))["value"].dataType
    try:
        changes = plan(_value_type(log), wanted)
    except InvalidConfig:
        state.close(log, intent, now=now)
        raise
    evolution.apply(log.spark, log.table, changes)
    # New fields come last in the tables, wherever they were named.
    value = nullable(_value_type(log))
    table_properties.change(log.spark, log.table, {TYPES: evolution.types_json(log.types.key, value)})
    wider = dataclasses.replace(log, types=Types(log.types.key, value))
    evolution.reconcile(wider, tables.read(log.spark, log.silver).schema)
    views.create(log.spark, log.name, log.root, log.silver, log.table, wider.types)
    state.close(wider, intent, now=now)


def _value_type(log: TopicLog) -> DataType:
    """The values' type as bronze has it."""
    return tables.read(log.spark, log.table).schema["value"].dataType
