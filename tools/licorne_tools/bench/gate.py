"""`make gate`, a part of CI: the cost of an allocation compared with the parent commit.

The working tree and the parent commit (the first parent of HEAD) are measured in turn, both uncompiled and
with the same interpreter. The measure is the CPU time of the server's process, which other programs affect
little, in pairs of runs, which they affect equally. The median ratio of several pairs is compared with the
limit; if it is above, more pairs follow.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic

import licorne_core
from licorne_server.commands.server_process import ServerFailed
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.installation import Installation, NotUsable, build_of, git
from licorne_tools.bench.load import Options
from licorne_tools.bench.report import Pairs, Side, Spread, brief, times, title, turns
from licorne_tools.bench.runs import alone, run_once
from licorne_tools.bench.scenarios import SCENARIOS, Scenario

LIMIT = 1.25
"""Maximum median ratio of the pairs."""
FIRST, SECOND, ALL = 3, 6, 9
"""Number of pairs of the first look, then minimum and maximum total after the second look."""
SECONDS = 75.0
"""Seconds after which the second look ends, if it has its minimum number of pairs."""
MEASURE = "cpu_us_per_allocation"
SCENARIO = SCENARIOS["shim"].scaled(pods=20_000)
ROOT = Path(licorne_core.__file__).parents[2]


class NothingToCompare(Exception):
    """The parent commit cannot be measured; the text says why."""


def parent_of(root: Path) -> str:
    """The parent commit of a checkout.

    Raises:
        NothingToCompare: there is no parent, or the clone is too shallow.
        NotUsable: git has failed.
    """
    _, *parents = git(root, "rev-list", "--parents", "--max-count=1", "HEAD").split()
    if parents:
        return git(root, "rev-parse", "--short", parents[0])
    shallow = git(root, "rev-parse", "--is-shallow-repository") == "true"
    raise NothingToCompare(
        "this clone is shallow, without the commit before"
        if shallow
        else "there is no commit before this one"
    )


@contextmanager
def exported(root: Path, commit: str) -> Iterator[Path]:
    """A folder with the files of a commit, for the duration of the block.

    Raises:
        NotUsable: git has failed.
    """
    with TemporaryDirectory() as folder:
        target = Path(folder) / "before"
        git(root, "worktree", "add", "--quiet", "--detach", str(target), commit)
        try:
            yield target
        finally:
            git(root, "worktree", "remove", "--force", str(target))


def enough(ratios: Iterable[float], late: Callable[[], bool]) -> list[float]:
    """The ratios of as many pairs as needed.

    A good first look is enough. A second look follows a bad first one, and ends at its minimum number of
    pairs if `late` returns true.
    """
    found = []
    for ratio in ratios:
        found.append(ratio)
        first_is_good = len(found) == FIRST and good(found)
        if first_is_good or len(found) == ALL or (len(found) >= SECOND and late()):
            break
    return found


def good(ratios: Iterable[float]) -> bool:
    """True if the median is within the limit."""
    return median(ratios) <= LIMIT


def pure(checkout: Path) -> Installation:
    """The sources of a checkout, run by this interpreter."""
    return Installation(sys.executable, checkout=checkout, pure=True)


def measured(root: Path, other: Path, scenario: Scenario) -> Iterator[float]:
    """Measure pairs; yield the ratio of each, after it is printed.

    Raises:
        NothingToCompare: the server of the parent commit has failed.
        BenchError, ServerFailed: the server of this source has failed.
    """
    checkouts = {Side.THIS: root, Side.OTHER: other}
    pairs = Pairs()
    for number, side in turns(ALL):
        options = Options(idle_seconds=0, installation=pure(checkouts[side]), bare=False)
        try:
            pairs.add(side, alone(run_once(scenario, options)))
        except (BenchError, ServerFailed) as error:
            if side is Side.OTHER:
                raise NothingToCompare(f"the commit before: {error}") from None
            raise
        if len(pairs.complete) == number:
            this, that = (run[MEASURE] for run in pairs.complete[-1])
            print(f"  pair {number}: {brief(this)} us, before {brief(that)} us", flush=True)
            yield this / that


def gate(root: Path, scenario: Scenario) -> bool:
    """Compare the commits, and print the builds and the result; True if the cost is within the limit.

    Raises as `measured` does, and NotUsable if this source cannot be imported.
    """
    commit = parent_of(root)
    with exported(root, commit) as other:
        here = build_of(pure(root))
        try:
            there = build_of(pure(other))
        except NotUsable as error:
            raise NothingToCompare(str(error)) from None
        print(f"gate: CPU per allocation, {title(scenario)}")
        print(f"  this:   {here}\n  before: {there}")
        start = monotonic()
        ratios = enough(measured(root, other, scenario), late=lambda: monotonic() - start > SECONDS)
    found = f"{Spread.of(ratios).quoted(times)} times that of {commit} in {len(ratios)} pairs"
    verdict = "passed" if good(ratios) else "failed"
    print(f"gate: {verdict}: an allocation costs {found}; the limit is {times(LIMIT)}")
    return good(ratios)


def run(root: Path = ROOT, scenario: Scenario = SCENARIO) -> int:
    """The program; returns 0 if the cost is within the limit or there is nothing to compare, else 1."""
    try:
        return 0 if gate(root, scenario) else 1
    except NothingToCompare as why:
        print(f"gate: passed, as there is nothing to compare: {why}")
        return 0
    except (BenchError, ServerFailed, NotUsable) as error:
        print(f"gate: failed: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(run())
