"""The decisions in a thousand random worlds equal the recorded ones.

The oracle determines the right decisions, and these digests the former ones, so that a refactoring changes
no decision, order or effect by accident. `make test` plays 80 worlds, the compiled core 80 others, and
`--worlds 500` all of them. A commit that changes decisions on purpose records new digests with `pytest
tests/properties/test_recorded.py --worlds 500 --rewrite`, and names the change in the changelog.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from licorne_core.extensions import NAMES as EXTENSIONS
from licorne_core.features import kinds
from licorne_core.standard import NAMES as STANDARD
from licorne_server.engine.journal.digest import DigestOf
from support.core.driver import Driver
from support.worlds import World
from support.worlds.playing import Players

FILE: Final = Path(__file__).parent / "recorded.txt"
LENGTH: Final = 60
FIRST: Final = 9_700_000

KINDS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"preempting": 0.9},
    {"gangs": 0.9},
    {"backfill": 1.0},
    {"notices": True, "preempting": 0.9},
    {"elastic": 0.9, "gangs": 0.9},
    {"topology": True, "gangs": 0.9},
    {"topology": True, "backfill": 1.0, "gangs": 0.5},
)
"""Options of worlds, which are used in turn; each has another predominant feature."""


def digest_of(number: int) -> str:
    """The digest of all decisions in the world of this number."""
    digest = DigestOf()
    players = Players(Driver(sweep=1_000_000))
    for step in World(FIRST + number, LENGTH, **KINDS[number % len(KINDS)]).steps:
        digest.saw(players.step(step))
    return digest.value().hex()[:16]


@pytest.mark.worlds(times=2, size=20)
def test_a_recorded_world_has_the_recorded_decisions(part: range, request: pytest.FixtureRequest) -> None:
    """Decisions, their order and all messages to RMs equal the recorded ones."""
    found = {number: digest_of(number) for number in part}
    known = dict(enumerate(FILE.read_text(encoding="ascii").split())) if FILE.exists() else {}
    if request.config.getoption("rewrite"):
        lines = (known | found).items()
        FILE.write_text("".join(f"{value}\n" for _, value in sorted(lines)), encoding="ascii")
        return
    differing = [number for number, value in found.items() if known.get(number) != value]
    assert differing == [], f"worlds {[FIRST + number for number in differing]} are decided differently"


IN_ORDER: Final = (("hours", "fair_memory"),)
"""Pairs of extensions that are called at the beginning of a turn, in this order."""


@pytest.mark.pure
@pytest.mark.parametrize("number", range(len(KINDS)))
def test_the_order_of_extensions_changes_no_decision(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of extensions changes no decision, if only `hours` precedes `fair_memory`."""
    by_name = {kind[0]: kind for kind in kinds()}
    order = [name for name in (*STANDARD, *reversed(EXTENSIONS)) if name in by_name]
    for first, second in IN_ORDER:
        order.remove(first)
        order.insert(order.index(second), first)
    monkeypatch.setattr("licorne_core.scheduler.kinds", lambda: tuple(by_name[name] for name in order))
    known = FILE.read_text(encoding="ascii").split()
    numbers = range(number, 10 * len(KINDS), len(KINDS))
    assert [one for one in numbers if digest_of(one) != known[one]] == []
