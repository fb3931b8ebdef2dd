"""``python -m tests.benchmarks [merge] [--keys M] [--contenders a,b]``: what lakelog costs next to the recipes, as figures of one run."""

from __future__ import annotations

import argparse

from tests.benchmarks import merge


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("what", nargs="?", default="merge", choices=["merge"])
    parser.add_argument("--keys", type=float, default=4, help="million keys (default 4)")
    parser.add_argument("--sizes", default="10000,100000", help="records a batch")
    parser.add_argument("--batches", type=int, default=4, help="batches of each size")
    parser.add_argument("--contenders", default=",".join(merge.CONTENDERS))
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    merge.main(int(options.keys * 1_000_000), sizes, options.batches, options.contenders.split(","))


if __name__ == "__main__":
    main()
