"""Plants one defect after the other in a copy of the tree, and reports whether the tests detect it.

``python tests/mutants [NAME ...] [--jobs 2]``, or ``make mutants``. The exit code is 0 if every defect is
detected by a test that it names, which must not be marked `slow` unless the defect is; otherwise it is 1.
With ``--table FILE`` the outcome of each defect is appended to the file with the tests that detected it, and
a run that was stopped continues with the defects that the file does not have.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from mutants.defect import Defect, DoesNotApply, write  # noqa: E402
from mutants.planted import ALL  # noqa: E402
from mutants.table import DOES_NOT_APPLY, KILLED, NO_VERDICT, SLOW_ONLY, SURVIVED, Table  # noqa: E402

ROOTS = ("core", "server", "clients/python", "clients/cli", "tools")
"""The folders in which packages begin."""
COPIED = ("core", "server", "clients", "tools", "tests", "proto", "docs", "pyproject.toml")
"""The files and folders that the tests need."""
TEST_SECONDS = 60
"""After this time a hanging test has detected the defect."""
RUN_SECONDS = 900
"""A run of tests that takes longer has no verdict."""
PASSED, FAILED, NOTHING = 0, 1, 5
"""Exit codes of pytest."""
QUICK, SLOW = (), ("-m", "slow and not transport")
"""Options of pytest for the tests of `make test`, and for those of `make test-slow`."""
NOTICED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", re.MULTILINE)


def main() -> int:
    """Run the selected defects; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these defects")
    parser.add_argument("--jobs", type=int, default=1, help="so many at once (%(default)s)")
    parser.add_argument(
        "--table", type=Path, help="add the defects that are not there, and what noticed each"
    )
    arguments = parser.parse_args()
    known = {defect.name: defect for defect in ALL}
    strangers = [name for name in arguments.names if name not in known]
    if strangers:
        parser.error(f"there is no defect {', '.join(strangers)}")
    defects = [known[name] for name in arguments.names] or ALL
    with copies(arguments.jobs) as trees:
        return run(defects, trees, arguments.jobs, Table(arguments.table))


@contextmanager
def copies(count: int) -> Iterator[SimpleQueue[Path]]:
    """A queue of this number of copies of the tree, to be borrowed and returned."""
    trees: SimpleQueue[Path] = SimpleQueue()
    with TemporaryDirectory(prefix="licorne-mutants-") as folder:
        for number in range(count):
            tree = Path(folder) / str(number)
            for name in COPIED:
                copy(ROOT / name, tree / name)
            trees.put(tree)
        yield trees


def copy(source: Path, target: Path) -> None:
    """Copy a file, or a folder with its contents except caches and hidden files."""
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(source, target, ignore=ignored)
    else:
        shutil.copy2(source, target)


def run(defects: Sequence[Defect], trees: SimpleQueue[Path], jobs: int, table: Table) -> int:
    """Try the defects that the table does not have, report all in order, and return the exit code."""
    tree = trees.get()
    left = [defect for defect in defects if defect.name not in table.verdicts]
    tests = sorted({test for defect in left for test in defect.tests_in(tree)})
    for which in (QUICK, SLOW) if tests else ():
        code, output = play(tree, tests, which)
        if code not in (PASSED, NOTHING):
            print(output)
            print("the tests fail without any defect")
            return 1
    trees.put(tree)

    def verdict(defect: Defect) -> tuple[str, list[str]]:
        tree = trees.get()
        try:
            return tried(defect, tree)
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(jobs) as pool:
        for defect, (found, noticing) in zip(left, pool.map(verdict, left), strict=True):
            print(f"{found:14} {defect.name}: {defect.wrong}", flush=True)
            table.add(defect.name, found, noticing)
    missed = [defect.name for defect in defects if table.verdicts[defect.name] != KILLED]
    print(f"{len(defects) - len(missed)} of {len(defects)} were noticed")
    if missed:
        print(f"not noticed: {' '.join(missed)}")
    return 1 if missed else 0


def tried(defect: Defect, tree: Path) -> tuple[str, list[str]]:
    """Plant the defect in this copy; return its outcome and the tests that detect it.

    Outcomes are: killed, survived, detected only by slow tests without the mark, or undetermined.
    """
    try:
        tests = defect.tests_in(tree)
        path, before = defect.plant(tree)
    except DoesNotApply as error:
        print(error, file=sys.stderr)
        return DOES_NOT_APPLY, []
    try:
        code, output = play(tree, tests, QUICK)
        unnoticed = code in (PASSED, NOTHING)
        if unnoticed:
            code, output = play(tree, tests, SLOW)
    finally:
        write(path, before)
    if code == FAILED:
        alone = unnoticed and not defect.slow
        return SLOW_ONLY if alone else KILLED, NOTICED.findall(output)
    if code in (PASSED, NOTHING):
        return SURVIVED, []
    # The tests could not be collected, were interrupted, or do not exist: no test has judged the defect.
    print(output, file=sys.stderr)
    return NO_VERDICT, []


def play(tree: Path, tests: Sequence[str], which: Sequence[str]) -> tuple[int | None, str]:
    """Run the chosen tests in a copy; return the exit code, None after a timeout, and the output."""
    sources = (tree / root for root in ROOTS)
    environment = {
        **os.environ,
        "CI": "1",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPATH": os.pathsep.join(map(str, sources)),
    }
    options = ("--maxfail=10", "-q", "-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *which, *tests],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        return None, f"no end after {error.timeout} s"
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
