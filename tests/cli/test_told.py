"""Results as the command line tells them, in values: what comes next, what would be refused, what there is to do."""

from __future__ import annotations

import dataclasses

import pytest

from lakelog.cli import told
from lakelog.results import Restored

RESTORED = Restored("orders", "friday", "0@5", 2, "keep", 0, {0: 8}, {}, [], [], [], replay={0: (5, 8)}, replay_records=3)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_restore_that_keeps_the_log_tells_what_the_next_merge_replays(dry_run: bool, capsys: pytest.CaptureFixture[str]) -> None:
    told.restored(dataclasses.replace(RESTORED, dry_run=dry_run))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"orders: {'would restore' if dry_run else 'restored'} to friday (0@5), silver version 2; log kept, epoch 0"
    assert lines[-1] == "  the next merge replays 3 records: offsets [5, 8) of partition 0"
    told.restored(dataclasses.replace(RESTORED, replay={}, replay_records=0))
    assert "replays" not in capsys.readouterr().out
