"""Tests whose program is missing are left out and counted."""

from collections import Counter
from collections.abc import Iterator

import pytest

import programs
from programs import LEFT_OUT, SLOW, leave_out, main, told

MISSING = "licorne-has-no-such-program"


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One program that is installed, and one that is not."""
    monkeypatch.setattr(programs, "PACKAGES", {MISSING: "some-package", "sh": "dash"})


@pytest.fixture
def items(request: pytest.FixtureRequest) -> list[pytest.Item]:
    """Four tests: one needs a missing program, one needs that and sh, one needs sh, and one nothing."""
    made: list[pytest.Item] = []
    for needed in ((MISSING,), ("sh", MISSING), ("sh",), ()):
        item = pytest.Function.from_parent(request.node.parent, name=f"test{len(made)}", callobj=lambda: None)
        item.add_marker(pytest.mark.needs(*needed))
        made.append(item)
    return made


@pytest.fixture
def config(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.Config]:
    """The configuration of this run; its counts of left out tests are restored."""
    config = request.config
    notes = config.stash[LEFT_OUT], config.stash[SLOW]
    monkeypatch.setattr(config.hook, "pytest_deselected", lambda items: None)
    yield config
    config.stash[LEFT_OUT], config.stash[SLOW] = notes


def test_tests_without_their_program_are_left_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests whose programs are installed are kept, in order; the others are counted by program."""
    wanted = items[2:]
    leave_out(config, items)
    assert items == wanted
    assert config.stash[LEFT_OUT] == {MISSING: 2}


def test_an_unlisted_program_is_refused(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A program that is not listed is refused, because `make check` could not report it as missing."""
    items[3].add_marker(pytest.mark.needs("other"))
    with pytest.raises(pytest.UsageError, match="does not list other"):
        leave_out(config, items)


def test_missing_programs_are_listed_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """All missing programs are listed at once; without one there is no message."""
    assert main() == f"programs are missing that tests need: {MISSING} (Debian's some-package)"
    monkeypatch.setattr(programs, "PACKAGES", {"sh": "dash"})
    assert main() is None


def test_left_out_tests_are_counted() -> None:
    """There is one line each for programs, slow tests and folders that were left out."""
    assert told(Counter(), 0) == []
    assert told(Counter(etcd=30, openssl=8), 300, ["tests/tools", "tests/soak", "tests/a"]) == [
        "left out for want of programs: 38 tests, 30 for etcd, 8 for openssl",
        "left out as slow: 300 tests; make test-slow runs them, make check all that CI runs",
        "left out as tests of the workshop: tests/tools, tests/soak; make test-workshop runs them",
    ]
