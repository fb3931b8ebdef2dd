"""Snapshots: states of the latest table that are named, kept, compared and restored (KIP-630).

A snapshot is (per-partition end offsets, epoch) ↔ a version of silver; silver's control rows at that version tell the first, so nothing here
grows with the number of keys. take.py enters one in registry.py, the lake's table of snapshots; keeping.py sees to it that Delta keeps what is
kept; epochs.py knows the epochs that there ever were; point.py finds what a name, a version or a time means, reads it and compares two of them.

A restore is decided in plan.py (what leaves the log, what is refused) and done by restore.py under an intent; the records that left the log
are held by quality/quarantine.py. maintain.py removes what is over and copies what must live long. verbs.py is what a topic can do with all that.

May import quality (quarantine), latest, log, inputs, delta and model. Others use `verbs.SnapshotVerbs`, ``registry`` (entries), ``take`` (newest),
``point``, ``keeping`` and ``restore`` (carry_out, stands, settle).
"""
