"""Bronze, the log: how records get permanent offsets, and how the log is read. Then: the log's format.

A batch that inputs/ has made ready takes this way: conditions.py (expected offsets, KIP-27), tokens.py and ledger.py (the files of sources)
-> append.py (one call) or bulk.py (a long file in chunks) -> bronze.py (offsets given, rows made, on the terms of terms.py) -> guard.py (one
INSERT that holds only if the log still ends as known). tail.py reads the log's end and state; notes.py reads the notes of commits and names other
writers; state.py changes the state, cut.py takes the log's end away with it, withdrawn.py keeps what the ledger loses by that; extent.py says how
old and how large the log is; rows.py has the table's columns and control rows; inspection.py looks at every offset; batch_rows.py gives
appends back what ends them.

May import inputs, delta and model. Others use ``append``, ``bulk``, ``bronze``, ``ledger``, ``state``, ``tail`` and ``inspection``.

**Format 2**, for whoever writes a second reader or writer.

*Rows.* The table is partitioned by (partition, segment); a segment is a directory named by its base offset. A row with ``control`` NULL is a
record. Rows with ``control`` (JSON with a ``type``) are the topic's own:

- ``batch``, at (partition, segment, last offset of the append in that partition), ``batch`` = the append's identity, which its records carry
  too: ``records`` it has there, ``octets`` of the segment so far, ``first`` (milliseconds of the segment's first record), ``largest`` (its own
  records' largest time), ``undated`` (its first record has no timestamp), ``after`` (the version of the table its writer had seen); in a mirrored
  log ``holes`` (how many offsets between the log's end before and this one hold no record). A clean leaves them all.
- ``state``, at (partition, segment -1, offset -1 - ``sequence``): the row with the least offset holds, and says everything. ``topic`` (its
  identity), ``sequence`` (from 1 on), ``epochs`` ([epoch, first offset], oldest first), ``origin``, ``start``, ``cleaned``, ``deletes_from``,
  ``records_from``, ``rolled``, ``forgotten`` (offsets; what each means: model/log_state.py), and where there is one ``intent`` (``operation``,
  ``id``, ``arguments``: an operation over several tables that was begun and is not finished) and ``mirror`` (the source that alone may write).
  The row's own ``epoch`` is the log's.
- ``checkpoint``, at (partition, segment -2, offset -1 - ``sequence``): the row with the least offset holds. Where the last clean ended:
  ``topic``, ``sequence``, ``dirty`` (the first offset not cleaned), ``at`` (milliseconds), ``segments`` ([base offset, records, octets] of what
  cleans have left), ``before`` and ``after`` (octets of the log around that clean). Appends do not read it, and nothing rests on it.
- ``token``, at (partition -1, segment = hash mod 16, offset = 63-bit hash): the answer to a repeat: ``token``, its ``digest``, ``records``,
  ``offsets`` (partition to [first, end]). The tokens of a bulk load's chunks lie at one place, the hash of its identity, each with the ``batch``
  of its records.
- ``aside``, at the place of a token made of its ``batch``: of an append without a token records were put aside; it answers with no offsets, and
  is neither forgotten nor taken by a restore. ``void``, at the same place: that batch, cut off before it was written, can be written no more.
- ``source``, at (partition -1, segment = 16 + hash of the source mod 16, offset = 63-bit hash of source and name): what was taken of a source, for
  good. A restore that cuts the ``offsets`` of a row of partition -1 takes the row with them; that of a source is kept at segment -4 with the
  generations in which it was in the log (``lives``), and comes back with its records.

The log end of a partition is the offset behind its last batch row, or the state's ``start`` where that is greater. Offsets below ``start`` are
gone; below ``cleaned`` some may be; in a mirrored topic there are holes. Nothing counts offsets: a batch row says how many records it has.

*Notes.* Each commit's user metadata is JSON: ``lakelog`` (``append``; ``intent`` and ``done`` of what goes over several tables, with ``truncate``,
``restore`` and ``erase`` between them; ``clean``, ``roll``, ``void``, ``maintain``, ``mirror``, ``repair``, ``upgrade``), ``ends`` (partition to
known log end), ``checked`` (the version up to which its writer looked at commits), an append's ``batch`` and ``tails``, a change of state's
``epoch`` and ``state`` (a partition and the ``batch`` of its new state row); ``id``, the commit's identity, in all but ``append``, ``restore`` and
``maintain``. A note is a hint: the rows decide.

*Before a commit a writer must check*, in the same transaction: for each partition it touches, the last record's offset and ``batch`` are those
known, the newest state row's offset and ``batch`` too, there is no ``intent`` in it, and the topic's identity is that of the state row. Between the
newest note's ``checked`` and the present version there must be no commit without a note that changed data, and no RESTORE that took back
commits with one. *After it* a commit that is not answered is found by its ``batch`` at the last offset it was to have.
"""
