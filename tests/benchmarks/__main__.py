"""``python -m tests.benchmarks [first|merge|append|snapshot|gate|clean|read|all]``: what lakelog costs next to the recipes, in one table of one run."""

from __future__ import annotations

import argparse

from tests.benchmarks import append, clean, first, gate, merge, reads, snapshots
from tests.benchmarks.table import head


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("what", nargs="?", default="all", choices=["first", "merge", "append", "snapshot", "gate", "clean", "read", "all"])
    loads = parser.add_argument_group("first")
    loads.add_argument("--records", default="4", help="million records of the first load (default 4)")
    loads.add_argument("--loads", type=int, default=3, help="first loads of each kind (default 3)")
    merges = parser.add_argument_group("merge")
    merges.add_argument("--keys", default="1,4", help="million keys (default 1,4)")
    merges.add_argument("--sizes", default="10000,100000", help="records a batch")
    merges.add_argument("--batches", type=int, default=4, help="batches of each size")
    merges.add_argument("--contenders", default=",".join(merge.CONTENDERS))
    appends = parser.add_argument_group("append")
    appends.add_argument("--rounds", type=int, default=9, help="appends of each kind (default 9)")
    appends.add_argument("--commits", type=int, default=10_000, help="commits of the long log (default 10000)")
    restores = parser.add_argument_group("snapshot")
    restores.add_argument("--tables", default="0.1,10", help="million keys of the tables compared (default 0.1,10)")
    restores.add_argument("--restores", type=int, default=3, help="restores of each kind (default 3)")
    cleans = parser.add_argument_group("clean")
    cleans.add_argument("--scale", type=float, default=1.0, help="of five million records (default 1)")
    cleans.add_argument("--cleans", type=int, default=2, help="cleans that are measured (default 2)")
    asks = parser.add_argument_group("read")
    asks.add_argument("--asks", type=int, default=5, help="times that each is asked (default 5)")
    options = parser.parse_args()
    head()
    if options.what in ("first", "all"):
        first.main(int(float(options.records) * 1_000_000), options.loads)
    if options.what in ("merge", "all"):
        sizes = [int(size) for size in options.sizes.split(",")]
        for keys in options.keys.split(","):
            merge.main(int(float(keys) * 1_000_000), sizes, options.batches, options.contenders.split(","))
    if options.what in ("append", "all"):
        append.main(options.rounds, options.commits)
    if options.what in ("snapshot", "all"):
        snapshots.main([int(float(size) * 1_000_000) for size in options.tables.split(",")], options.restores)
    if options.what in ("gate", "all"):
        gate.main(options.rounds)
    if options.what in ("clean", "all"):
        clean.main(options.cleans, options.scale)
    if options.what in ("read", "all"):
        reads.main(options.asks, options.commits)


if __name__ == "__main__":
    main()
