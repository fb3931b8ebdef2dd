"""Bad data stops here: expectations before the log and before the latest table, the audit of the table, and the quarantine with its way back.

folder.py reads a door's suites, suites.py understands them: rules about single rows (rowwise.py writes Great Expectations' own as SQL), figures,
and what is left to Great Expectations. gate.py stands before the log (the records themselves are judged in inputs/, in the pass that sums a batch
up), merge_gate.py before silver, audit.py looks at all of silver; conditions.py tells rules that cannot be evaluated, engine.py is the one door to
Great Expectations, to which expectations.py makes lakelog's own known. judgement.py decides, as values; verdicts.py records what was said,
pages.py shows it, profile.py writes a starting set of suites. quarantine.py holds records that are not in the log; selection.py says which of them
are meant and how they are mended, rivals.py which keys have newer records that they would overwrite, requeue.py appends them again. verbs.py is
what a topic can do with all that.

Great Expectations is imported by engine.py and expectations.py alone, when a suite has something for it.

May import latest, log, inputs, delta and model. Others use `verbs.QualityVerbs`, `merge_gate.Acceptance` and ``quarantine`` (put).
"""
