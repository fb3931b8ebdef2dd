"""What an append is given, whatever its shape, as one kind of frame: the request; then checked record by record and summed up.

sources.py takes a file, a frame or records: files.py opens text files within Spark's tasks, csv.py and ndjson.py read them; arrow.py takes
what is or can be Arrow (frames of pandas and polars, Arrow tables, Parquet files with nanoseconds); values.py writes records of Python
values as lines of JSON; fitting.py gives columns the types that the topic declares. kafka.py takes messages of Kafka, whose octets
decoding.py decodes, avro.py those of Avro. staging.py checks every record and sums the request up, screening.py what row rules found in it;
refusal.py lists what is wrong. inference.py takes the types of a new topic from such an input; identity.py names an input by its content,
directory.py lists the files of a directory and reads what they hold, keys.py reads one key that somebody names.

May import delta and model. Others use ``sources.requested``, ``staging``, ``inference.types_like``, ``identity.of_files``, ``directory``,
``keys.named`` and ``csv.CsvOptions``.
"""
