"""The operations that are cut off: how each is called, what another process does after that, and what must be so in the end.

state.py has the batches and what must hold; the other files have, for the operations of a wing, the check that comes after.
"""

from __future__ import annotations

from lakelog import Position
from tests.races.operations.append import bulk, is_appended_once, is_put_aside_once, is_requeued_once, split
from tests.races.operations.cleaning import is_cleaned, is_erased, is_expired
from tests.races.operations.readers import exported, imported, is_committed, is_cut, is_exported, is_imported
from tests.races.operations.snapshots import is_kept, is_maintained, is_rewound, is_truncated
from tests.races.operations.state import ENDS, KEEP_DAYS, MORE, SETTINGS, WIDER, Operation, create, records
from tests.races.operations.tables import goes_on_beside, is_created, is_deleted, is_repaired, is_upgraded

OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("expected", "sound", lambda lake: lake.topic("t").append(records(MORE), expected_offset=ENDS), is_appended_once),
        Operation("token", "sound", lambda lake: lake.topic("t").append(records(MORE), token="more"), is_appended_once),
        Operation("plain", "sound", lambda lake: lake.topic("t").append(records(MORE)), is_appended_once),
        Operation("bulk", "sound", bulk, is_appended_once),
        Operation("aside", "gated", lambda lake: split(lake, "aside"), is_put_aside_once),
        Operation("aside_without_token", "gated", split, is_put_aside_once),
        Operation("requeue", "aside", lambda lake: lake.topic("t").requeue(fix={"v": "v - 100"}), is_requeued_once),
        Operation("merge", "sound", lambda lake: lake.topic("t").merge(), goes_on_beside),
        Operation("rebuild", "sound", lambda lake: lake.topic("t").merge(rebuild=True), goes_on_beside),
        Operation("types", "sound", lambda lake: lake.topic("t").configure(value=WIDER), goes_on_beside),
        Operation("settings", "sound", lambda lake: lake.topic("t").configure(SETTINGS), goes_on_beside),
        Operation("cut", "covered", lambda lake: lake.topic("t").truncate("s"), is_cut),
        Operation("commit", "sound", lambda lake: lake.topic("t").commit("g", Position(ENDS, 0)), is_committed),
        Operation("create", "nothing", create, is_created),
        Operation("delete", "sound", lambda lake: lake.delete_topic("t"), is_deleted),
        Operation("repair", "restored", lambda lake: lake.topic("t").repair(), is_repaired),
        Operation("snapshot", "sound", lambda lake: lake.topic("t").snapshot("x", keep=f"{KEEP_DAYS} days"), is_kept),
        Operation("truncate", "named", lambda lake: lake.topic("t").restore("s"), is_truncated),
        Operation("keep", "named", lambda lake: lake.topic("t").restore("s", log="keep"), is_rewound),
        Operation("maintain", "named", lambda lake: lake.topic("t").maintain(), is_maintained),
        Operation("clean", "segments", lambda lake: lake.topic("t").clean(force=True), is_cleaned),
        Operation("expire", "expiring", lambda lake: lake.topic("t").clean(roll_idle=True), is_expired),
        Operation("erase", "named", lambda lake: lake.topic("t").erase(b"a"), is_erased),
        Operation("export", "sound", exported, is_exported),
        Operation("import", "exported", imported, is_imported),
        Operation("upgrade", "old", lambda lake: lake.upgrade(), is_upgraded),
    )
}  # fmt: skip
