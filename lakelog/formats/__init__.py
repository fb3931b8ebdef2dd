"""How each format becomes columns, strictly: nothing is rounded, cut or guessed.

files.py opens text files within Spark's tasks, csv.py and ndjson.py read them; parquet.py reads Parquet files; arrow.py takes what is or can be
Arrow (frames of pandas and polars, Arrow tables, Parquet files with nanoseconds); values.py writes records of Python values as lines of JSON;
decoding.py decodes the octets of messages, avro.py those of Avro. variant.py makes typed values of JSON, texts.py says which texts are times
and numbers, fitting.py gives columns of frames and files the types that the topic declares.

May import delta and model. inputs/ uses all of it; others `csv.CsvOptions` and ``decoding``.
"""
