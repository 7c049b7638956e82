"""Run a command of `licorne` from any installation; it ends with its parent.

    python -P command.py [--root FOLDER]... [--pure] [--grpc] [--profile FILE] COMMAND...
    python -P command.py [--root FOLDER]... [--pure] --about

The file is run by its path, with the interpreter of any checkout. So it imports Licorne's packages only after
it has selected their folders, and then only modules that every checkout has.

With `--profile` the command runs under the profiler, which writes a file for `python -m pstats`. Times are
two to three times those of a server without the profiler; only the shares are meaningful.
"""

import argparse
import cProfile
import json
import runpy
import sys
from dataclasses import asdict
from importlib import import_module
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

COMPILED = ("licorne_core", "licorne_server")
"""The packages that have compiled modules."""
SERVER = Path(__file__).parents[3] / "server/licorne_server"
BUILD_INFO = SERVER / "process/build_info.py"
CHILD = SERVER / "commands/child.py"
"""Files of this checkout, even if another checkout is run."""


def prefer_sources() -> None:
    """Import compiled packages from their sources; to be called before any import of them."""
    ours = [
        Path(folder)
        for package in COMPILED
        if (spec := PathFinder.find_spec(package)) is not None
        for folder in spec.submodule_search_locations or ()
    ]
    finder = FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))

    def source_finder(folder: str) -> Any:
        if not any(Path(folder).is_relative_to(package) for package in ours):
            raise ImportError(f"{folder} is not ours")
        return finder(folder)

    sys.path_hooks.insert(0, source_finder)
    sys.path_importer_cache.clear()


def about() -> None:
    """Print the build that would run, and the folder of the core, as JSON."""
    import licorne_core

    import_module("licorne_server.__main__")  # fails here if the server lacks a package
    # An older checkout may lack this module or some of its fields.
    build_info = runpy.run_path(str(BUILD_INFO))["build_info"]
    print(json.dumps({**asdict(build_info()), "folder": str(Path(licorne_core.__file__).parent)}))


def run_command(command: list[str], profile: str | None) -> int:
    """Run the command; returns its exit code. A profile is written even if the command fails."""
    from licorne_server.__main__ import main

    if profile is None:
        return main(command)
    profiler = cProfile.Profile()
    try:
        return profiler.runcall(main, command)
    finally:
        profiler.dump_stats(profile)


def run() -> int:
    """The program; its exit code is that of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--pure", action="store_true")
    parser.add_argument("--grpc", action="store_true")
    parser.add_argument("--about", action="store_true")
    parser.add_argument("--profile", metavar="FILE")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    sys.path[:0] = args.root
    if args.pure:
        prefer_sources()
    if args.grpc:
        # Behave as if the package were not installed.
        sys.modules["licorne_transport"] = None  # type: ignore[assignment]
    if args.about:
        about()
        return 0
    runpy.run_path(str(CHILD))["end_with_parent"]()
    return run_command(args.command, args.profile)


if __name__ == "__main__":
    sys.exit(run())
