"""Topic settings under Kafka's names: what each means, its default, what is legal, and where its effective value comes from.

A setting is taken from the topic, else from the lake's default (under Kafka's broker name), else from the table below. Values are
checked when they are set, alone and together; a name is known only once it does something.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakelog.errors import InvalidConfig
from lakelog.model.names import absolute_folder

LONG_MAX = 2**63 - 1
Value = str | int | float | bool
POLICIES = ("compact", "delete")
STRATEGIES = ("offset", "timestamp", "header", "column")


@dataclass(frozen=True)
class Setting:
    """One setting: Kafka's name, its default, how text becomes a value, the broker's name for a lake-wide default, and a sentence."""

    name: str
    default: Value
    parse: Callable[[str], Value]
    says: str
    broker: str = ""
    fixed: bool = False
    folder: bool = False  # of which a relative path is made absolute when it is set

    @property
    def lake_name(self) -> str:
        """The name of the lake-wide default: Kafka's broker synonym, else the topic-level name."""
        return self.broker or self.name


def _long(least: int, most: int = LONG_MAX) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if not least <= number <= most:
            raise ValueError(f"must be from {least} to {most}")
        return number

    return parse


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.strip().lower() == "true"


def _choice(*choices: str, blank: str | None = None, any_case: bool = False) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if blank is not None and not text.strip():
            return blank
        for choice in choices:
            if text == choice or (any_case and text.strip().lower() == choice.lower()):
                return choice
        raise ValueError(f"must be one of {', '.join(choices)}")

    return parse


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("must be a number from 0 to 1") from None
    if not 0 <= number <= 1:
        raise ValueError("must be a number from 0 to 1")
    return number


def _policies(text: str) -> str:
    """A list of policies, each once, in Kafka's order."""
    given = {one.strip() for one in text.split(",")}
    if not given <= set(POLICIES):
        raise ValueError(f"must be a list of {', '.join(POLICIES)}")
    return ",".join(one for one in POLICIES if one in given)


SETTINGS: Mapping[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("compaction.strategy", "offset", _choice(*STRATEGIES, blank="offset", any_case=True),
                "which record of a key is the latest: offset, timestamp, header or column (KIP-280)", "log.cleaner.compaction.strategy"),
        Setting("compaction.strategy.header", "", str,
                "header: the header that carries the version, matched exactly, the last of that name counts; blank = offset order",
                "log.cleaner.compaction.strategy.header"),
        Setting("compaction.strategy.column", "", str,
                "column: fields of the value that are the version, compared in order, NULL lowest"),
        Setting("compaction.header.encoding", "int64", _choice("int64", "varlong", "text"),
                "how the version header is encoded: int64 (8 bytes, big-endian, signed), varlong (zig-zag) or text (decimal)"),
        Setting("compaction.header.invalid", "absent", _choice("absent", "reject"),
                "an unusable version header: absent (counts as none, and is counted) or reject (the append is refused)"),
        Setting("compaction.header.required", False, _boolean,
                "refuse a blank compaction.strategy.header under the header strategy instead of falling back to offset"),
        Setting("tombstone.unversioned", "", _choice("lose", "win_by_offset", blank=""),
                "a delete without a version: lose (and be counted), or win_by_offset (beats all earlier, loses to all later records);"
                " default lose under header, win_by_offset under column"),
        Setting("tombstone.strict", False, _boolean, "refuse a null value without the tombstone flag"),
        Setting("tombstone.version.retention.ms", -1, _long(-1),
                "how long the version of a deleted key is remembered after its tombstone expired, against late older records; -1 = for ever"),
        Setting("check.expected.offsets", True, _boolean, "check expected offsets at append (KIP-27); off = they are ignored, and the result says so"),
        Setting("check.expected.offsets.scope", "partition", _choice("partition", "key"),
                "partition: an expected offset must be the one the record gets; key: greater than its key's last (a late loser counts until cleaned)"),
        Setting("producer.id.expiration.ms", 604800000, _long(1), "how long tokens are remembered", "producer.id.expiration.ms"),
        Setting("offsets.retention.ms", 604800000, _long(1), "how long a registered reader's position holds the log without a new commit of it"),
        Setting("segment.ms", 604800000, _long(1), "a segment older than this is closed at the next append", "log.roll.ms"),
        Setting("segment.bytes", 1073741824, _long(14), "a segment that would grow past this is closed at the next append",
                "log.segment.bytes"),
        Setting("cleanup.policy", "compact", _policies,
                "compact: the cleaner removes superseded records; delete: it drops old segments; or both, as a list", "log.cleanup.policy"),
        Setting("delete.retention.ms", 86400000, _long(0),
                "how long a tombstone stays after the first clean that keeps it", "log.cleaner.delete.retention.ms"),
        Setting("min.compaction.lag.ms", 0, _long(0), "a segment with a younger record is not cleaned, nor what lies behind it",
                "log.cleaner.min.compaction.lag.ms"),
        Setting("max.compaction.lag.ms", LONG_MAX, _long(1), "a closed segment older than this is cleaned whatever the dirty ratio",
                "log.cleaner.max.compaction.lag.ms"),
        Setting("min.cleanable.dirty.ratio", 0.5, _share, "a partition is cleaned when more than this share of its closed log is dirty",
                "log.cleaner.min.cleanable.ratio"),
        Setting("retention.ms", 604800000, _long(-1), "delete: a closed segment whose newest record is older goes; -1 = never",
                "log.retention.ms"),
        Setting("retention.bytes", -1, _long(-LONG_MAX - 1), "delete: closed segments go while the partition's log is larger; below 0 = never",
                "log.retention.bytes"),
        Setting("max.message.bytes", 1048588, _long(0), "largest record: octets of key, value, header names and values", "message.max.bytes"),
        Setting("message.timestamp.type", "CreateTime", _choice("CreateTime", "LogAppendTime"),
                "whose time a record carries: the producer's or the append's", "log.message.timestamp.type"),
        Setting("message.timestamp.before.max.ms", LONG_MAX, _long(0), "how far a record's time may lie before the append",
                "log.message.timestamp.before.max.ms"),
        Setting("message.timestamp.after.max.ms", LONG_MAX, _long(0), "how far a record's time may lie after the append",
                "log.message.timestamp.after.max.ms"),
        # Delta keeps it as an interval, which ends where its microseconds do.
        Setting("snapshot.retention.ms", 2592000000, _long(-1, LONG_MAX // 1000),
                "how long silver's versions stay readable (time travel) and snapshots without a name live; -1 = for ever"),
        Setting("snapshot.retention.count", -1, _long(-1), "how many snapshots without a name are kept at most; -1 = any number"),
        Setting("max.snapshot.interval.ms", 0, _long(0), "a merge takes a snapshot when the last one is older than this; 0 = off",
                "metadata.log.max.snapshot.interval.ms"),
        Setting("max.record.bytes.between.snapshots", 0, _long(0),
                "a merge takes a snapshot when records of so many octets were merged since the last one; 0 = off",
                "metadata.log.max.record.bytes.between.snapshots"),
        Setting("quality.suites", "", str, "the folder that holds the topic's suites, <topic>/append.json, merge.json and table.json; blank = no gate",
                folder=True),
        Setting("quality.on.failure", "refuse", _choice("refuse", "quarantine"),
                "what becomes of records that break a critical row rule: refuse (the batch is refused) or quarantine (they are put aside)"),
        Setting("deletion.vectors", False, _boolean, "deletion vectors on silver: cheaper merges, but only readers that know them can read the table"),
        Setting("silver.buckets", 1, _long(1, 4096), "hash buckets of silver", fixed=True),
    )
}  # fmt: skip
RULE_SETTINGS = (
    "compaction.strategy", "compaction.strategy.header", "compaction.strategy.column", "compaction.header.encoding", "tombstone.unversioned",
)  # fmt: skip


@dataclass(frozen=True)
class Effective:
    """A setting's effective value and its origin: ``topic``, ``lake`` or ``default``."""

    name: str
    value: Value
    origin: str
    says: str


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean X?`` for the nearest known word, first one that differs in case or blanks alone, else an empty text."""
    words = list(known)
    near = [one for one in words if one.strip().lower() == word.strip().lower()] or difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return f" Did you mean {near[0]}?" if near else ""


def _other_name(name: str, known: Mapping[str, Setting]) -> str:
    """The name to be used in place of an unknown one: what the same setting is called there, else the nearest."""
    for setting in SETTINGS.values():
        if name in (setting.name, setting.lake_name) and setting in known.values():
            there = next(one for one, same in known.items() if same is setting)
            return f" {'Lake-wide' if there == setting.lake_name else 'For a topic'} it is called {there}."
        if name == setting.name and setting.fixed:
            return " Each topic has its own, from its creation on."
    return did_you_mean(name, known)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse(settings: Mapping[str, Any], *, lake: bool = False) -> dict[str, str]:
    """Settings as the user gave them, checked one by one, in the text form that is stored; relative folders are those below the current folder.

    Args:
        settings: name to value (text, number or boolean); names of topics, or with ``lake`` Kafka's broker names.

    Raises:
        InvalidConfig: an unknown name (with the nearest known one), or an illegal value; nothing is set.
    """
    known = {setting.lake_name if lake else name: setting for name, setting in SETTINGS.items() if not (lake and setting.fixed)}
    stored: dict[str, str] = {}
    for name, value in settings.items():
        if name not in known:
            raise InvalidConfig(
                f"There is no {'lake-wide default' if lake else 'setting'} {name!r}.{_other_name(name, known)}", setting=name
            )
        text = _text(value)
        try:
            parsed = known[name].parse(text)
        except ValueError as error:
            reason = str(error) if "must be" in str(error) else "must be a whole number"
            raise InvalidConfig(f"{name}={text}: {reason}.", setting=name, value=text) from error
        stored[name] = absolute_folder(text.strip()) if known[name].folder and text.strip() else _text(parsed)
    return stored


class TopicConfig:
    """The effective configuration of a topic: typed values by name, each with its origin."""

    def __init__(self, topic: Mapping[str, str], lake: Mapping[str, str] | None = None) -> None:
        """Take the stored text settings of the topic (topic names) and of the lake (broker names); what is unknown is passed over."""
        self._effective: dict[str, Effective] = {}
        for name, setting in SETTINGS.items():
            value, origin = setting.default, "default"
            if lake and setting.lake_name in lake:
                value, origin = setting.parse(lake[setting.lake_name]), "lake"
            if name in topic:
                value, origin = setting.parse(topic[name]), "topic"
            self._effective[name] = Effective(name, value, origin, setting.says)
        if not self._effective["tombstone.unversioned"].value:
            unversioned = "win_by_offset" if self.text("compaction.strategy") == "column" else "lose"
            self._effective["tombstone.unversioned"] = Effective(
                "tombstone.unversioned", unversioned, "default", SETTINGS["tombstone.unversioned"].says
            )

    def text(self, name: str) -> str:
        """The value of a text setting."""
        return str(self._effective[name].value)

    def number(self, name: str) -> int:
        """The value of a number setting."""
        return int(self._effective[name].value)

    def share(self, name: str) -> float:
        """The value of a setting between 0 and 1."""
        return float(self._effective[name].value)

    def policy(self, name: str) -> bool:
        """Whether ``cleanup.policy`` has a policy."""
        return name in self.text("cleanup.policy").split(",")

    def roll_ms(self) -> int:
        """After how long a segment is closed: under compaction ``max.compaction.lag.ms`` at the latest (SEMANTICS 55)."""
        lag = self.number("max.compaction.lag.ms") if self.policy("compact") else LONG_MAX
        return min(self.number("segment.ms"), lag)

    def flag(self, name: str) -> bool:
        """The value of a true/false setting."""
        return bool(self._effective[name].value)

    def effective(self) -> list[Effective]:
        """Every setting with value and origin, in the order of the reference."""
        return list(self._effective.values())

    def warnings(self) -> dict[str, str]:
        """Settings that are legal and yet surely not what was meant: name to sentence (SEMANTICS 18)."""
        if self.text("compaction.strategy") == "header" and not self.text("compaction.strategy.header").strip():
            return {"compaction.strategy.header": "compaction.strategy=header without a header name: records are ordered by offset."}
        return {}

    def check(self) -> None:
        """Refuse combinations that make no sense together.

        Raises:
            InvalidConfig: naming the two settings.
        """
        if self.text("compaction.strategy") == "column" and not self.text("compaction.strategy.column").strip():
            raise InvalidConfig("compaction.strategy=column needs compaction.strategy.column: the fields of the value that order records.")
        if self.warnings() and self.flag("compaction.header.required"):
            raise InvalidConfig("compaction.strategy=header needs compaction.strategy.header (compaction.header.required is set).")
        if self.number("min.compaction.lag.ms") > self.number("max.compaction.lag.ms"):
            raise InvalidConfig("min.compaction.lag.ms must not be greater than max.compaction.lag.ms.")


def changed(
    stored: Mapping[str, str], settings: Mapping[str, Any], lake: Mapping[str, str] | None = None
) -> tuple[TopicConfig, dict[str, str | None]]:
    """A topic's configuration after a change of settings.

    Args:
        stored: the topic's own settings as they are, name to text.
        settings: name to new value; None removes the topic's own.
        lake: the lake's settings (broker names).

    Returns:
        (the configuration after it, what is to be stored for it: name to text, None where one is to be removed).

    Raises:
        InvalidConfig: a setting is unknown, illegal or fixed, or the combination makes no sense.
    """
    fixed = [name for name in settings if name in SETTINGS and SETTINGS[name].fixed]
    if fixed:
        raise InvalidConfig(f"{fixed[0]} is fixed when a topic is created.")
    parse({name: "" for name in settings if name not in SETTINGS})
    given = parse({name: value for name, value in settings.items() if value is not None})
    texts: dict[str, str | None] = {name: given.get(name) for name in settings}
    after = TopicConfig({name: text for name, text in {**stored, **texts}.items() if text is not None}, lake)
    after.check()
    return after, {name: text for name, text in texts.items() if text != stored.get(name)}
