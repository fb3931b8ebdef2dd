"""Lakes that several tests begin with: made once in a process, and copied from then on."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakelog import Lake, Topic

_folder = tempfile.TemporaryDirectory(prefix="lakelog-templates-")


def made_once(build: Callable[..., Topic]) -> Callable[..., Topic]:
    """A function that makes a lake with a topic, of a Lake whose folder is not there yet: its second call with equal arguments copies the first one's.

    The lake's clock is then where it was at the end. A Lake that is there already gets the topic as without this.
    """
    made: dict[Any, tuple[Path, str, int]] = {}

    @functools.wraps(build)
    def begin(lake: Lake, **given: Any) -> Topic:
        if Path(lake.root).exists():
            return build(lake, **given)
        asked = tuple(sorted(given.items()))
        if asked not in made:
            topic = build(lake, **given)
            kept = Path(_folder.name, f"{build.__name__}-{len(made)}")
            made[asked] = (Path(shutil.copytree(lake.root, kept)), topic.name, lake.clock())
            return topic
        folder, name, now = made[asked]
        shutil.copytree(folder, lake.root)
        lake.clock.now = now  # type: ignore[attr-defined]
        return lake.topic(name)

    return begin
