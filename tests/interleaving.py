"""Two writers in a certain order: one stands before a step while another does its work."""

from __future__ import annotations

from typing import Any

import pytest


def late(patch: pytest.MonkeyPatch, owner: Any, name: str, other: Any) -> None:
    """Before a function runs for the first time, another writer does its work."""
    function, done = getattr(owner, name), []

    def called(*given: Any, **more: Any) -> Any:
        if not done:
            done.append(name)  # its work may come by here too
            other()
        return function(*given, **more)

    patch.setattr(owner, name, called)
