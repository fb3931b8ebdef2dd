"""A root and its topics: how a lake, a topic and its tables come into being, and how they go.

lake.py is what users open. lake_table.py is the lake's own table: its properties list the topics and hold the lake-wide defaults;
lake_topics.py opens them, lake_queries.py asks them in SQL.
lake_import.py makes a topic of an export. query.py tells queries from statements that write.
lake_snapshots.py does with the snapshots of all topics what a topic does with its own.

May import `lakelog.topic` and the wings below it. Others use `Lake`.
"""
