"""Programs that tests need besides Python, make and git.

A test declares them, with ``@pytest.mark.needs("etcd")``. If one is missing, the test is left out, and the
end of the run has the number. `make check` begins with ``python tests/programs.py``, which fails and lists
what is missing, except for toolchains.
"""

import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

LEFT_OUT = pytest.StashKey[Counter[str]]()
SLOW = pytest.StashKey[int]()
PACKAGES = {"bash": "bash", "etcd": "etcd-server", "fish": "fish", "openssl": "openssl", "zsh": "zsh"}
"""The programs, and the packages of Debian that have them."""
TOOLCHAINS = ("go",)
"""Programs that `make check`, too, can do without, as it says then."""
WORKSHOP = ("tests/tools", "tests/deploy", "tests/kube", "tests/soak")
"""Folders of `make test-workshop`."""


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests whose programs are installed, and count the others and the slow ones.

    Raises:
        pytest.UsageError: a test needs a program that is not listed here.
    """
    config.stash[SLOW] = sum(item.get_closest_marker("slow") is not None for item in items)
    needed = {item: [name for mark in item.iter_markers("needs") for name in mark.args] for item in items}
    names = {name for of_one in needed.values() for name in of_one}
    if strangers := names.difference(PACKAGES, TOOLCHAINS):
        raise pytest.UsageError(f"tests/programs.py does not list {', '.join(sorted(strangers))}")
    gone = missing(names)
    wanting = {item: next(filter(gone.__contains__, of_one), "") for item, of_one in needed.items()}
    config.stash[LEFT_OUT] = Counter(filter(None, wanting.values()))
    if gone:
        config.hook.pytest_deselected(items=[item for item in items if wanting[item]])
        items[:] = [item for item in items if not wanting[item]]


def missing(names: Iterable[str]) -> list[str]:
    """The programs that are not on the PATH."""
    return [name for name in sorted(names) if shutil.which(name) is None]


class Told:
    """Reports the left out tests at the end of a run; with `-n` a worker passes its counts on."""

    def __init__(self, config: pytest.Config) -> None:
        """Use the configuration of this run."""
        self._config = config

    def pytest_sessionfinish(self) -> None:
        """Pass the counts of a worker on."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["left_out"] = dict(self._left_out())
            output["slow"] = self._config.stash.get(SLOW, 0)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the counts of a worker; all workers have collected the same."""
        output = getattr(node, "workeroutput", {})
        self._config.stash[LEFT_OUT] = Counter(output.get("left_out", {}))
        self._config.stash[SLOW] = output.get("slow", 0)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line each about missing programs, slow tests, and tests of the workshop."""
        slow = self._config.stash.get(SLOW, 0) if "not slow" in self._config.getoption("markexpr") else 0
        for line in told(self._left_out(), slow, self._config.getoption("deselect") or ()):
            terminalreporter.write_line(line)

    def _left_out(self) -> Counter[str]:
        return self._config.stash[LEFT_OUT] if LEFT_OUT in self._config.stash else Counter()


def told(left_out: Counter[str], slow: int, deselected: Sequence[str] = ()) -> list[str]:
    """A line for each kind of left out tests."""
    lines = []
    if left_out:
        each = ", ".join(f"{count} for {name}" for name, count in sorted(left_out.items()))
        lines.append(f"left out for want of programs: {left_out.total()} tests, {each}")
    if slow:
        lines.append(f"left out as slow: {slow} tests; make test-slow runs them, make check all that CI runs")
    folders = ", ".join(one for one in deselected if one in WORKSHOP)
    if folders:
        lines.append(f"left out as tests of the workshop: {folders}; make test-workshop runs them")
    return lines


def main() -> str | None:
    """Report the programs that are missing for all tests, if any."""
    packages = [f"{name} (Debian's {PACKAGES[name]})" for name in missing(PACKAGES)]
    return f"programs are missing that tests need: {', '.join(packages)}" if packages else None


if __name__ == "__main__":
    sys.exit(main())
