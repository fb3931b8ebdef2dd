"""The drawings of the status page: SVG by Matplotlib, texts as texts, nothing that has to be fetched. Matplotlib is imported here alone."""

from __future__ import annotations

import contextlib
import datetime
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakelog.errors import NotReady
from lakelog.model.json_values import EPOCH
from lakelog.page.growth import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that people with any kind of colour vision can tell apart (Okabe and Ito).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
INK, FAINT, FAILED, GREY = "#33404f", "#dde2e9", "#D55E00", "#9aa5b3"
STYLE = {
    "svg.fonttype": "none", "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 8, "axes.edgecolor": "#9aa5b3",
    "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK, "ytick.color": INK, "axes.linewidth": 0.8, "text.parse_math": False,
    "axes.unicode_minus": False, "timezone": "UTC",
}  # fmt: skip
WIDTH, WIDER, HEIGHT, ROW = 5.6, 11.4, 2.1, 0.25
# What a run takes beside its steps.
AROUND = "around"
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def require() -> None:
    """Refuse to go on without Matplotlib.

    Raises:
        NotReady: saying how to install it.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise NotReady("The status page is drawn with matplotlib, which is not installed: pip install 'lakelog[page]'.") from error


def octets(number: float) -> str:
    """A size for people: ``1.2 MB``."""
    for unit in UNITS:
        if abs(number) < 1000 or unit == UNITS[-1]:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.3g} {unit}" if abs(number) < 100 else f"{number:.0f} {unit}"
        number /= 1000
    raise AssertionError


def whole(number: float) -> str:
    """A number for people: ``12,345``."""
    return f"{number:,.0f}"


def share(number: float) -> str:
    """A share for people: ``40%``."""
    return f"{number:.0%}"


def lines(series: Mapping[str, Series], *, says: str, told: Callable[[float], str], most: float | None = None) -> str:
    """Series over time, each value until the next one.

    Args:
        series: by name.
        says: what the drawing shows, for those who do not see it.
        told: a value for people.
        most: the upper end of the scale; else by the values.
    """
    with _drawing(says) as (figure, axes, out):
        for colour, (name, points) in zip(COLOURS, series.items(), strict=False):
            times, values = [_days(at) for at, _ in points], [value for _, value in points]
            axes.step(times, values, where="post", color=colour, linewidth=1.4, label=name, clip_on=False)
            size = 2.4 if len(points) < 60 else 0
            axes.plot(times, values, linestyle="none", marker="o", markersize=size, color=colour, clip_on=False)
        highest = max((value for points in series.values() for _, value in points), default=0)
        axes.set_ylim(0, most or 1.12 * highest or 1)
        _scale(axes, told, whole_numbers=told is whole)
        _times(axes)
        if len(series) > 1:
            _legend(axes, len(series))
        _saved(figure, out, says)
    return out.getvalue()


def bars(runs: Sequence[tuple[datetime.datetime, Mapping[str, float], bool]], *, says: str) -> str:
    """Seconds of runs, by step, one bar beside the other; a cross over those that failed.

    Args:
        runs: (when, step to seconds, whether it succeeded), oldest first.
        says: as of `lines`.
    """
    steps = list(dict.fromkeys(step for _, seconds, _ in runs for step in seconds))
    with _drawing(says) as (figure, axes, out):
        below = [0.0] * len(runs)
        colours = [GREY if step == AROUND else COLOURS[place % (len(COLOURS) - 1)] for place, step in enumerate(steps)]
        for colour, step in zip(colours, steps, strict=True):
            heights = [seconds.get(step, 0.0) for _, seconds, _ in runs]
            axes.bar(range(len(runs)), heights, bottom=below, width=0.75, color=colour, label=step)
            below = [low + height for low, height in zip(below, heights, strict=True)]
        top = max(below, default=0) or 1
        wrong = [index for index, (_, _, fine) in enumerate(runs) if not fine]
        if wrong:
            over = [below[index] + 0.06 * top for index in wrong]
            axes.plot(wrong, over, linestyle="none", marker="x", markersize=5, markeredgewidth=1.6, color=FAILED, label="not done")
        axes.set_ylim(0, 1.18 * top)
        axes.set_xlim(-0.7, max(len(runs), 8) - 0.3)
        shown = sorted({round(index * (len(runs) - 1) / 4) for index in range(5)}) if len(runs) > 5 else range(len(runs))
        one_day = len({at.date() for at, _, _ in runs}) == 1
        axes.set_xticks(list(shown), [f"{runs[index][0]:{'%H:%M' if one_day else '%m-%d %H:%M'}}" for index in shown])
        _scale(axes, lambda seconds: f"{seconds:g} s")
        _legend(axes, len(steps) + bool(wrong))
        _saved(figure, out, says)
    return out.getvalue()


def lives(rows: Sequence[tuple[str, datetime.datetime, datetime.datetime | None, bool]], now: datetime.datetime, *, says: str) -> str:
    """Spans on a time line, one below the other, up to their end or (None) for ever; solid where ``kept``, hatched where retention may end it.

    Args:
        rows: (name, begin, end, kept).
        now: a line is drawn there.
        says: as of `lines`.
    """
    last = max([now, *(end for _, _, end, _ in rows if end is not None)])
    first = min([now, *(begin for _, begin, _, _ in rows)])
    # Keeps may last for years: the scale ends where most of it can still be seen.
    span = max(now - first, datetime.timedelta(minutes=10))
    edge = min(last, now + 3 * span) + span * 0.08
    with _drawing(says, width=WIDER, height=0.6 + ROW * max(len(rows), 2)) as (figure, axes, out):
        for place, (_, begin, end, kept) in enumerate(rows):
            goes_on = end is None or end > edge
            stop = edge if end is None or end > edge else end
            style: dict[str, Any] = {"color": COLOURS[0]} if kept else {"facecolor": "#cfe3f1", "edgecolor": COLOURS[0], "hatch": "////"}
            axes.barh(place, _days(stop) - _days(begin), left=_days(begin), height=0.55, linewidth=0.6, **style)
            if goes_on:
                axes.plot([_days(edge)], [place], marker=">", markersize=5, color=COLOURS[0], clip_on=False)
        axes.axvline(_days(now), color=FAILED, linewidth=1.2)
        axes.annotate("now", (_days(now), -0.75), color=FAILED, ha="center", va="bottom", annotation_clip=False)
        axes.set_ylim(len(rows) - 0.4, -0.7)
        axes.set_yticks(range(len(rows)), [name if len(name) < 28 else f"{name[:26]}…" for name, _, _, _ in rows])
        axes.set_xlim(_days(first - span * 0.03), _days(edge))
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color=FAINT, linewidth=0.7)
        axes.spines["left"].set_visible(False)
        _times(axes)
        _saved(figure, out, says)
    return out.getvalue()


@contextlib.contextmanager
def _drawing(says: str, *, width: float = WIDTH, height: float = HEIGHT) -> Iterator[tuple[Figure, Axes, io.StringIO]]:
    import matplotlib
    from matplotlib.figure import Figure

    # Names within a drawing are made of what it says, so that two drawings of a page have none in common.
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": says}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        yield figure, axes, io.StringIO()


def _days(at: datetime.datetime) -> float:
    """A time as Matplotlib counts them."""
    return (at - EPOCH) / datetime.timedelta(days=1)


def _scale(axes: Axes, told: Callable[[float], str], *, whole_numbers: bool = False) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=whole_numbers))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: told(value)))
    axes.grid(axis="y", color=FAINT, linewidth=0.7)


def _times(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _legend(axes: Axes, entries: int) -> None:
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=min(entries, 4),
        frameon=False,
        borderaxespad=0,
        handlelength=1.2,
        columnspacing=1.2,
    )


def _saved(figure: Figure, out: io.StringIO, says: str) -> None:
    """The drawing as an element of a page: no prolog, no names but those that are referred to, a title for those who do not see it."""
    import html

    figure.savefig(out, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<style.*?</style>|<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    known = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in known else "", text)
    said = html.escape(says, quote=True)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"|(<svg[^>]*?) height="[^"]*"', r"\1\2", text, count=1)
    text = re.sub(r"<svg", f'<svg role="img" aria-label="{said}"', text, count=1)
    out.seek(0)
    out.truncate()
    out.write(re.sub(r"\n\s*", "\n", text))
