"""Values and Spark expressions; nothing here reads or writes.

names.py: tables and topics by name. records.py: types, sizes and problems of records. row_rules.py: conditions that records must meet.
ordering.py: which record is the latest. config.py: the settings. topic_log.py: a topic's tables, types and rule in one value. segments.py:
where a batch goes in the log. mirroring.py: records that keep the offsets of their source. steps.py: where a bounded merge ends.
expectations.py: expected offsets. log_state.py: what a partition's log says of itself. widening.py: how types may change. snapshot_id.py:
what names a snapshot, and which of them go. point_in_time.py: a version, a time or a snapshot. positions.py: where a reader stands on the
log. kinds.py: types in Spark's words, where Spark is not there. queries.py: which statements are queries. json_values.py: values of rows as
JSON has them.

May import `lakelog.errors` and `lakelog.arguments` alone.
"""
