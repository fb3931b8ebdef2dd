"""Inputs that Spark does not read as strictly as a log needs, brought to frames; nothing here knows topics or tables.

csv.py reads CSV files (RFC 4180). Files are read by Python workers beside Spark's own tasks (files.py), never by the driver.

May import `lakelog.errors` alone. Others use ``csv.frame``.
"""
