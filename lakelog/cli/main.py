"""The command line: ``lakelog VERB``. The same words as in Python; data on stdout, talk on stderr, the exit code by the kind of error.

Nothing here imports Spark before a command needs it: ``lakelog --help`` answers at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from lakelog.cli import quality, queries, records, running, snapshots
from lakelog.cli.readers import readers
from lakelog.cli.topics import lakes, topics
from lakelog.errors import InvalidRequest
from lakelog.running.interrupt import Signals
from lakelog.terminal import output
from lakelog.terminal.context import Call, Config, Debug, Json, Root, Yes, verb
from lakelog.terminal.failure import failure

app = typer.Typer(
    name="lakelog",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topics, name="topic")
app.add_typer(lakes, name="lake")


def _version(asked: bool) -> None:
    if asked:
        from lakelog import __version__

        output.line(f"lakelog {__version__}")
        raise typer.Exit


@app.callback()
def lakelog(
    context: typer.Context,
    root: Root = None,
    config: Config = None,
    json: Json = False,
    yes: Yes = False,
    debug: Debug = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Kafka-style compacted topics on Delta Lake: append, merge, query, travel in time."""
    context.obj = Call(root, config, json, yes, debug, context.obj or Signals())


# ---- the verbs ----

records.register(app)
queries.register(app)
snapshots.register(app)
quality.register(app)
running.register(app)
app.add_typer(readers)


@verb(app, example="lakelog doctor")
def doctor(
    call: Call, spark: Annotated[bool, typer.Option("--spark", help="Start Spark too, and write and read a small Delta table.")] = False
) -> None:
    """Tell what is wrong here, and what to do."""
    from lakelog.cli import doctor as checks

    found = checks.examine(call.settings, spark=spark)
    checks.report(found, as_json=call.json)
    if any(check.state == "fail" for check in found):
        raise typer.Exit(2)


@verb(app, example="lakelog shell")
def shell(
    call: Call,
    engine: Annotated[
        str | None, typer.Option(metavar="duckdb|spark", help="Who answers queries; else DuckDB where the lake can be read without Java.")
    ] = None,
) -> None:
    """Type verbs and SQL, one start for all; or give a script on standard input."""
    from lakelog.cli import shell as shells
    from lakelog.terminal import root as place
    from lakelog.terminal.input import standard_input

    if engine not in (None, *shells.ENGINES):
        raise InvalidRequest(f"--engine {engine}: must be one of {', '.join(shells.ENGINES)}.")
    settings = call.settings()
    native = not place.why_not_here(settings)
    options = ["--root", settings.lake_root(), *(["--config", call.config] if call.config else [])]
    options += [f"--{flag}" for flag in ("json", "yes", "debug") if getattr(call, flag)]
    verbs = {name: [*getattr(one, "commands", ())] for name, one in typer.main.get_group(app).commands.items()}
    opened = shells.Shell(main, options, verbs, settings.open_native if native else None, engine or ("duckdb" if native else "spark"))
    code = shells.converse(opened) if shells.is_terminal() else opened.script(standard_input())
    if code:
        raise typer.Exit(code)


@verb(app, example="lakelog demo --into ./demo")
def demo(
    call: Call, into: Annotated[Path | None, typer.Option(help="A new or empty folder; else a temporary one, which stays.")] = None
) -> None:
    """The whole path on real data, step by step."""
    from lakelog.cli import demo as tour

    tour.run(main, folder=into)


# ---- the entry ----


def main(argv: Sequence[str] | None = None, signals: Signals | None = None) -> int:
    """Run one command and return its exit code: 0, or that of the error (see `lakelog.errors`), 1 for a defect, 130 when interrupted."""
    _open_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    signals = signals or Signals()
    caught: BaseException | None = None
    code = 0
    try:
        with _while_read(), warnings.catch_warnings(), signals.guarding():
            warnings.simplefilter("ignore")
            code = int(typer.main.get_command(app).main(args=arguments, prog_name="lakelog", standalone_mode=False, obj=signals) or 0)
    except (KeyboardInterrupt, Exception) as error:
        caught = error
    # A run reports by itself what ended it.
    if caught is None and (code or signals.received is None):
        return code
    if type(caught).__name__ == "NoArgsIsHelpError":
        output.say(str(caught))
        return 2
    failed = failure(caught, signals.received)
    if "--debug" in flags and caught is not None:
        traceback.print_exception(caught)
    with _while_read():
        output.failed(failed, as_json="--json" in flags)
    return failed.exit_code


def _open_streams() -> None:
    """Where whoever called closed a standard stream (``>&-``), take nothing in its place: what is said there is lost."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))


@contextlib.contextmanager
def _while_read() -> Iterator[None]:
    """Print as long as somebody reads: a closed pipe (`lakelog read orders | head -1`) ends this in good order, and what is printed later is lost.

    Raises:
        LakelogError: stdout takes no more, such as a file on a full disk.
    """
    streams = sys.stdout, sys.stderr
    try:
        try:
            yield
        except SystemExit as error:
            # So Typer ends where it meets a closed pipe, behind streams of its own.
            sys.stdout, sys.stderr = streams
            raise error.__context__ or error from None
        output.flush()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")


if __name__ == "__main__":
    sys.exit(main())
