"""Run a command of `licorne` under the profiler: ``python -m … FILE COMMAND…``.

The file is for `python -m pstats`. Times of the profiled server are two to three times those
of a free one; it is the shares that tell.
"""

import cProfile
import sys

from licorne_server.__main__ import main


def profiled(file: str, arguments: list[str]) -> int:
    """Run the command, write the profile whatever becomes of it, and return its exit code."""
    sys.argv = ["licorne", *arguments]
    profiler = cProfile.Profile()
    try:
        return profiler.runcall(main)
    finally:
        profiler.dump_stats(file)


if __name__ == "__main__":
    sys.exit(profiled(sys.argv[1], sys.argv[2:]))
