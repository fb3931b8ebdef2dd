"""Inputs that Spark does not read as strictly as a log needs, brought to frames; nothing here knows topics or tables.

csv.py reads CSV files (RFC 4180); arrow.py takes what is or can be Arrow: frames of pandas and polars, Arrow tables, Parquet files with
nanoseconds; values.py writes records of Python values as lines of JSON. Files are read by Python workers within Spark's tasks (files.py), never
by the driver.

May import `lakelog.errors` alone. Others use ``csv.frame``, ``arrow.frame``, ``arrow.parquet`` and ``values.lines``.
"""
