"""Errors in the words of the command line. They speak Python, since the verbs of `Topic` and `Lake` raise them: `merge(rebuild=True)`, `encoding=`;
whoever reads them in a terminal or in the log of a job is told `lakelog merge TOPIC --rebuild` and `--encoding`."""

from __future__ import annotations

import functools
import re

from lakelog.errors import LakelogError

# What errors say, and what the command line says for it; TOPIC is the topic of the command.
WORDS: tuple[tuple[str, str], ...] = (
    (r"\b([Rr])un merge with rebuild once", r"\1un `lakelog merge TOPIC --rebuild` once"),
    (r"\bmerge\(rebuild=True\)", "`lakelog merge TOPIC --rebuild`"),
    (r"\b([Rr])un verify with repair\b", r"\1un `lakelog verify TOPIC --repair`"),
    (r"\bthen repair again\b", "then run `lakelog verify TOPIC --repair` again"),
    (r"\bRun lake upgrade\b", "Run `lakelog lake upgrade`"),
    (r"\bonce \(lake upgrade\)", "once (`lakelog lake upgrade`)"),
    (r"\b([Rr])un verify\b", r"\1un `lakelog verify TOPIC`"),
    (r"\bcreate_topic makes it one", "`lakelog topic create` makes it one"),
    (r"\bcreate_topic completes it, delete_topic removes it", "`lakelog topic create` completes it, `lakelog topic delete` removes it"),
    (r"\bDelete the topic \(delete_topic; ", "Delete the topic (`lakelog topic delete`; "),
    (r"\bdelete_topic ends it", "`lakelog topic delete` ends it"),
    (r"\bdelete_topic removes what is there", "`lakelog topic delete` removes what is there"),
    (r"take it off the list: delete_topic", "take it off the list: `lakelog topic delete`"),
    (r"Open it with topic\([^)]*\), or choose another name", "Choose another name"),
    (r"Name it: format='ndjson', 'csv' or 'parquet'", "Name it: --format ndjson, csv or parquet"),
    (r"\bmerge\(accept='(\w+)', reason=…\)", r"`lakelog merge TOPIC --accept \1 --reason …`"),
    (r"\bthe same with overwrite=True", "the same command with --overwrite"),
    (r"\bGive the records anew \(corrected\)", "Give the records anew (--corrected FILE)"),
    (r"\btake their registration away \(forget\)", "take their registration away (`lakelog commit TOPIC GROUP --forget`)"),
    (r"\bdelete the snapshots \(delete_snapshot\)", "delete the snapshots (`lakelog snapshot delete TOPIC NAME`)"),
    (r"\b([Nn])ame the encoding \(encoding='cp1252', for example\)", r"\1ame the encoding (--encoding cp1252, for example)"),
    (r"Name it: delimiter=('[^']*')", r"Name it: --delimiter \1"),
    (r"or say what means NULL: null=''", "or say what means NULL: --null ''"),
    (r"\bLeave out key_columns\.", "Leave out --key-columns."),
    (r"Name the columns that are the key \(key_columns=\[…\]\)", "Name the columns that are the key (--key-columns a,b)"),
    (r"or append without load\.", "or append without --bulk."),
    (r"say how they are decoded, for example decode=\{'(\w+)': 'json'\}", r"say how they are decoded, for example --decode \1=json"),
    (r"or let this one wait \(wait_ms=600_000\)", "or let this one wait (--wait '10 minutes')"),
    (r"Give the Lake a session: Lake\(spark, root\)\.", "Ask with --engine spark."),
    (r"^(delimiter|encoding)=", r"--\1 "),
    (r"^report=", "--report "),
    (r"^metrics=", "--metrics-file "),
    (r"^at=('[^']*'|\S+)", r"--at \1"),
    (r"^partitions=", "--partitions "),
    (r"^expected_offset names partition (\d+)", r"--expected-offset \1:… names partition \1"),
    (r"^expected_offset=(-?\d+) for partition (\d+)", r"--expected-offset \2:\1"),
)


@functools.lru_cache(maxsize=1024)
def spoken(text: str, topic: str | None) -> str:
    """A sentence of lakelog's in the words of the command line. Thousands of bad records have few reasons: each is looked up once."""
    for python, shell in WORDS:
        text = re.sub(python, shell.replace("TOPIC", topic or "TOPIC"), text)
    return text


def in_cli(error: LakelogError, topic: str | None) -> LakelogError:
    """The same error, its message in the words of the command line."""
    error.args = (spoken(str(error), topic),)
    problems = [{**one, "reason": spoken(one["reason"], topic)} for one in error.details.get("problems", ())]
    if problems:
        error.details = {**error.details, "problems": problems}
    return error
