"""What every command of the CLI takes, before the command's name or after it, and what it gets from that: the lake, and how to answer."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from lakelog.delta.object_store import unarbitrated
from lakelog.delta.session import setting
from lakelog.errors import UNSUPPORTED_FEATURE, InvalidRequest, LakelogError, NotReady
from lakelog.running.interrupt import Signals
from lakelog.terminal import output
from lakelog.terminal.words import in_cli

if TYPE_CHECKING:
    from lakelog.lake.lake import Lake
    from lakelog.results import Result
    from lakelog.sources.configured import Source
    from lakelog.terminal.settings import Settings

Root = Annotated[str | None, typer.Option("--root", help="The lake: a path with a /, or a catalog schema. [env LAKELOG_ROOT]")]
Config = Annotated[str | None, typer.Option("--config", metavar="FILE", help="A lakelog.toml; else the nearest up. [env LAKELOG_CONFIG]")]
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON object on stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before destroying something.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Engine = Annotated[str, typer.Option(metavar="auto|native|spark", help="Who reads: native is without Java; auto takes it where it can.")]
Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=0, help="At most so many rows.")]
Form = Annotated[str, typer.Option("--format", metavar="table|json|csv", help="json is an object a line.")]
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN",
        help="Of CSV, for example ';' or '\\t' (tab); else a comma.",
        callback=lambda text: "\t" if text == "\\t" else text,
    ),
]
Encoding = Annotated[str | None, typer.Option(metavar="NAME", help="Of CSV, for example cp1252 or utf-16; else utf-8.")]
COMMON: dict[str, Any] = {"root": Root, "config": Config, "json": Json, "yes": Yes, "debug": Debug}
# What begins a comment of SQL and is no option: a name, alone or with its value.
COMMENTED = re.compile(r"--(?![A-Za-z][\w-]*(?:=|\Z)|\Z)")
DEFAULTS: dict[str, Any] = {"root": None, "config": None, "json": False, "yes": False, "debug": False}


def said(**options: str | None) -> dict[str, Any]:
    """The options that the command line says, be it what is so by default."""
    return {name: text for name, text in options.items() if text is not None}


@dataclass(frozen=True)
class Call:
    """One call of the CLI: its common options, wherever they stood."""

    root: str | None = None
    config: str | None = None
    json: bool = False
    yes: bool = False
    debug: bool = False
    signals: Signals = field(default_factory=Signals)

    def settings(self) -> Settings:
        """Command line, environment and lakelog.toml, in this order."""
        from lakelog.terminal.settings import load

        return load(root=self.root, config=self.config)

    def lake(self, topics: Sequence[str] = (), *, creating: bool = False, writing: bool = False, sources: Sequence[Source] = ()) -> Lake:
        """The lake, on a Spark session; what can be told to be wrong without Spark is told before it starts (`root.require`)."""
        from lakelog.terminal import root

        settings = self.settings().reading(sources)
        root.require(settings, topics, creating=creating, writing=writing)
        with output.working("starting Spark"):
            lake = settings.open_lake()
        self.signals.started(lake.spark)
        if creating or writing:
            why = unarbitrated(lake.root, lambda name: setting(lake.spark, name))
            if why:
                output.say(f"Warning: {why}")
        return lake

    def reading(self, topics: Sequence[str] = (), engine: str = "auto") -> Lake:
        """The lake for a verb that only reads: without Spark where the engine says so, or may, and the root allows it (`root.chosen_engine`)."""
        from lakelog.terminal import root

        settings = self.settings()
        native = root.chosen_engine(settings, engine) == "native"
        if not native:
            return self.lake(topics)
        root.require(settings, topics, spark=False)
        return settings.open_native()

    def answer(self, result: Result, text: Callable[[Any], None]) -> None:
        """A result as one JSON object, or as text."""
        if self.json:
            output.line(result.to_json())
        else:
            text(result)

    def require_input_free(self, files: Sequence[str]) -> None:
        """Refuse standard input as a file in a statement of a shell: it is the shell's.

        Raises:
            InvalidRequest: naming the remedy.
        """
        if "-" in files and not self.signals.ends_session:
            raise InvalidRequest("Standard input is the shell's: name a file.")

    @property
    def asks(self) -> bool:
        """Whether `confirm` will ask somebody, who wants to see first what would be done."""
        return not self.yes and sys.stdin.isatty()

    def confirm(self, what: str) -> None:
        """Ask before something is destroyed.

        Raises:
            InvalidRequest: the answer is no, or there is no terminal to ask at and no --yes.
        """
        if self.yes:
            return
        if not sys.stdin.isatty():
            raise InvalidRequest(f"{what}: there is no terminal to ask at. Nothing was done. Give --yes if you mean it.")
        if not typer.confirm(f"{what}?", err=True):
            raise InvalidRequest(f"{what}: you said no. Nothing was done.")


def _of_spark(error: Exception, topic: object) -> LakelogError | None:
    """What an error of Spark's stands for that came past the verb, such as of rows that were still to be read; None where it is none."""
    if not type(error).__module__.startswith(("pyspark", "py4j")):
        return None
    from lakelog.delta.errors import translated

    named = topic if isinstance(topic, str) else None
    found = translated(error, named or "The lake")
    return found and in_cli(found, named)


class OfText(TyperCommand):
    """A command with a text of SQL: one that begins with a comment (``-- …``) is no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As a command does, with the text behind its options."""
        found = next((place for place, one in enumerate(args) if one == "--" or COMMENTED.match(one)), len(args))
        if args[found:] and args[found] != "--":
            args = [*args[:found], *args[found + 1 :], "--", args[found]]
        return super().parse_args(ctx, args)


def verb(
    app: typer.Typer, name: str | None = None, *, example: str, kind: type[TyperCommand] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command of ``app``: its first argument is the `Call`, the others are the command's own, then come the common ones.

    ``example`` is shown by its help, and run by a test: the first topic is orders, the file orders.ndjson.

    A command that takes ``--config NAME=VALUE`` itself has no ``--config FILE``; there the file is named before the command.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        taken = {one.name for one in own}
        common = {option: kind for option, kind in COMMON.items() if not (option == "config" and "setting" in taken)}
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [one.replace(kind=keyword) for one in own]
        parameters += [inspect.Parameter(option, keyword, default=DEFAULTS[option], annotation=kind) for option, kind in common.items()]
        parameters.append(inspect.Parameter("context", keyword, annotation=typer.Context))

        def command(*, context: typer.Context, **given: Any) -> None:
            before: Call = context.find_root().obj or Call()
            after = {option: given.pop(option) for option in common}
            both = {option: after.get(option) or getattr(before, option) for option in COMMON}
            call = Call(**both, signals=before.signals)
            try:
                try:
                    function(call, **given)
                except NotReady as error:
                    # What only Spark can read, Spark reads.
                    if error.name != UNSUPPORTED_FEATURE or given.get("engine") != "auto":
                        raise
                    function(call, **{**given, "engine": "spark"})
            except LakelogError as error:
                topic = given.get("topic")
                raise in_cli(error, topic if isinstance(topic, str) else None) from error.__cause__
            except Exception as error:
                ours = _of_spark(error, given.get("topic"))
                if ours is None:
                    raise
                raise ours from error

        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        app.command(name, cls=kind, epilog=f"\b\nExample:\n  {example}")(command)
        return function

    return register
