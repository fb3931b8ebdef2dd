"""Bronze, the log: how a request becomes records with permanent offsets, and how the log is read.

A request takes this way: sources.py (a file, frame or list as one kind of frame; ndjson.py for its lines, fitting.py for its columns) ->
staging.py (checked record by record, summed up; refusal.py for what is wrong) -> conditions.py (expected offsets, KIP-27) and tokens.py ->
append.py (one call) or bulk.py (a long file in chunks) -> bronze.py (offsets given, rows made) -> guard.py (one INSERT that holds only if
the log still ends as known).
tail.py reads the log's end; rows.py the table as statements read it; identity.py names an input by its content.

May import inputs, delta and model. Others use ``append.append``, ``bulk.load``, ``bronze`` (create, records, batch_ends),
``tail.log_end`` and ``sources.requested``.
"""
