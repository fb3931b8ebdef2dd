"""The status page: one file that needs no network and runs no script, of a lake's topics, their history, runs, snapshots and verdicts.

table_reader.py reads the lake's own tables by either lane, overview.py puts together what is told, growth.py makes series of it, charts.py
draws them, page.py writes the HTML.

May import running and the wings below it; the one door to Matplotlib. Others use ``overview.overview`` and ``page``.
"""
