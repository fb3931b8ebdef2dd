"""What an append is given, whatever its shape, as one kind of frame: the request; then checked record by record and summed up.

sources.py takes a file, a frame or a list: files.py opens text files, csv.py and ndjson.py read them, fitting.py gives their columns the types
that the topic declares. staging.py checks every record and sums the request up; refusal.py lists what is wrong. identity.py names an input by
its content.

May import delta and model. Others use ``sources.requested``, ``staging``, ``identity.of_files`` and ``csv.CsvOptions``.
"""
