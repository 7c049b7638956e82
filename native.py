"""Compiles the server's hot modules into machine code, with mypyc: `make native`, `make dist`.

The source is plain Python, and also runs uncompiled, but more slowly. A module is compiled if it matches a
pattern of `COMPILED` and none of `PURE`. All compiled modules are in one library, because calls within a
library are fastest. Python finds each module through a small library of its own.
"""

import argparse
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mypyc.build import mypycify
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
ROOTS = ("core", "server")
"""The folders that contain the packages."""

COMPILED = (
    "core/licorne_core/**/*.py",
    "server/licorne_server/wire/*.py",
    "server/licorne_server/rms/outbox.py",
    "server/licorne_server/rms/streams.py",
    "server/licorne_server/rms/event_blocks.py",
    "server/licorne_server/rms/event_log.py",
    "server/licorne_server/services/exchange.py",
)
"""The code that runs for every ask and allocation: the core, and the conversion of its messages."""

PURE = {
    "*/__init__.py": "mypyc gives a compiled one a wrong __path__, and there is next to no code",
    "core/licorne_core/scheduler.py": "it is called once for many decisions, and tools subclass it",
    "core/licorne_core/config/[!s]*.py": "a configuration is read once; its schema is used always",
    "core/licorne_core/views/*.py": "reports are made for people",
    "core/licorne_core/messages/reports.py": "so are these",
    "core/licorne_core/features.py": "it looks up modules by their names",
    "server/licorne_server/wire/features.py": "so does this",
    "core/licorne_core/standard/*/reports.py": "they are for people, as reports are",
    "core/licorne_core/extensions/*/keys.py": "they are read with the configuration",
    "core/licorne_core/extensions/*/reports.py": "they are for people, as reports are",
    "core/licorne_core/extensions/*/projection.py": "so are guesses",
}
"""Patterns of modules that are not compiled, with the reasons."""

FLAGS = ("-fvisibility=hidden", "-w")
"""Flags of the C compiler. Only the entry of each module is exported, so that the library calls its own
functions directly. Warnings are off, because they would be about generated code."""

TYPING = (
    "--config-file=",
    "--explicit-package-bases",
    "--ignore-missing-imports",
    "--follow-imports=silent",
    "--disable-error-code=overload-cannot-match",
)
"""Options of mypy, which only uses the types here; `make types` checks them. A build lacks the types of
gRPC, without which imported types are inconsistent and some overloads look equal."""

LIBRARY = "licorne_native"
WORK = ROOT / "build/native/c"
BUILT = ROOT / "build/native/lib"


class ParallelBuild(build_ext):
    """Runs the C compiler on all processors."""

    def build_extensions(self) -> None:
        """Compile all extensions in parallel, and also the files of each."""
        compile_some = self.compiler.compile
        jobs = os.cpu_count() or 1

        def compile_all(sources: Sequence[str], **options: Any) -> list[str]:
            by_size = sorted(sources, key=os.path.getsize, reverse=True)
            with ThreadPoolExecutor(jobs) as pool:
                parts = pool.map(lambda source: compile_some([source], **options), by_size)
                return [built for part in parts for built in part]

        self.compiler.compile = compile_all
        self.parallel = jobs
        super().build_extensions()


def modules() -> list[str]:
    """The files to compile, relative to the root of the project."""
    found = (path.relative_to(ROOT).as_posix() for pattern in COMPILED for path in ROOT.glob(pattern))
    return sorted(path for path in found if not any(fnmatch(path, left) for left in PURE))


def build(target: Path, work: Path, level: str) -> None:
    """Compile into `target`, with generated C in `work`, at an optimization level of the C compiler."""
    os.environ["MYPYPATH"] = os.pathsep.join((*ROOTS, "clients/python"))
    extensions: list[Extension] = mypycify(
        [*TYPING, *modules()],
        opt_level=level,
        debug_level="0",
        multi_file=True,
        group_name=LIBRARY,
        target_dir=str(work),
    )
    for extension in extensions:
        extension.extra_compile_args += FLAGS
    command = ParallelBuild(Distribution({"name": LIBRARY, "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(target), str(work)
    command.ensure_finalized()
    command.run()


def pure() -> None:
    """Remove all libraries from the source folders."""
    for root in ROOTS:
        for library in (ROOT / root).rglob("*.so"):
            library.unlink()


def put_in_place(built: Path) -> None:
    """Replace the libraries beside the sources. The common library is copied to the first of `ROOTS`."""
    pure()
    for library in built.rglob("*.so"):
        place = library.relative_to(built)
        homes = [root for root in ROOTS if (ROOT / root / place.parts[0]).is_dir()]
        shutil.copy(library, ROOT / (homes or ROOTS)[0] / place)


def main() -> None:
    """Run the action of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("in-place", "pure", "into"))
    parser.add_argument("target", nargs="?", type=Path, default=BUILT, help="of `into`")
    parser.add_argument("--level", default="1", help="of the C compiler (%(default)s)")
    args = parser.parse_args()
    os.chdir(ROOT)
    if args.action == "pure":
        pure()
        return
    shutil.rmtree(args.target, ignore_errors=True)
    build(args.target, WORK, args.level)
    if args.action == "in-place":
        put_in_place(args.target)


if __name__ == "__main__":
    main()
