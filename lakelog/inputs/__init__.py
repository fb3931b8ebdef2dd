"""What an append is given, whatever its shape, as one kind of frame: the request; then checked record by record and summed up.

sources.py takes a file, a frame or records, with formats/, and makes a request (request.py) of it; kafka.py one of messages of Kafka. plans.py tells
from Spark's plan whether a frame gives the same rows again. staging.py checks every record and sums the request up by the groups of groups.py,
screening.py what row rules found in it; refusal.py lists what is wrong. inference.py takes the types of a new topic from such an input; identity.py
names an input by its content, directory.py lists the files of a directory and reads what they hold, keys.py reads one key that somebody names.

May import formats, delta and model. Others use ``sources.requested``, ``staging``, ``inference.types_like``, ``identity.of_files``, ``directory``
and ``keys.named``.
"""
