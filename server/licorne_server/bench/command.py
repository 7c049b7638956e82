"""Run a command of `licorne` that ends with its parent: ``python -m … [--profile FILE] COMMAND…``.

With `--profile` it runs under the profiler, and the file is for `python -m pstats`. Times of a
profiled server are two to three times those of a free one; it is the shares that tell.
"""

import argparse
import cProfile
import sys

from licorne_server.__main__ import main
from licorne_server.bench.with_parent import end_with_parent


def profiled(file: str, command: list[str]) -> int:
    """Run the command, write the profile whatever becomes of it, and return its exit code."""
    profiler = cProfile.Profile()
    try:
        return profiler.runcall(main, command)
    finally:
        profiler.dump_stats(file)


def run() -> int:
    """The program; its exit code is that of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", metavar="FILE")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    end_with_parent()
    return profiled(args.profile, args.command) if args.profile else main(args.command)


if __name__ == "__main__":
    sys.exit(run())
