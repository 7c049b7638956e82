"""The recount of a running core has no findings, whatever commands arrive during a recount."""

from collections.abc import Iterator
from itertools import islice

import pytest

from licorne_core.messages.commands import Command
from licorne_core.messages.effects import Effect
from licorne_core.partitions.partition import Partition
from licorne_core.views.audit.recount import Concern, Finding, audit
from support.core.driver import Driver
from support.worlds import World
from support.worlds.playing import play_watched

STEPS = 7
"""Steps of the audit between two commands."""


def _is_doubt(finding: Finding | None) -> bool:
    """True for findings about the books; False for None, and for nodes that are really overfull."""
    return finding is not None and finding.concern is not Concern.OVERFULL


@pytest.mark.row(165)
@pytest.mark.worlds(first=9_000_000, one_in=20)
def test_sound_books_have_no_findings(part: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recount in parts, a few steps after each command, has no findings about the books."""
    send = Driver.send
    under_way: dict[Partition, Iterator[Finding | None]] = {}

    def audited(driver: Driver, command: Command) -> list[Effect]:
        effects = send(driver, command)
        for partition in driver.scheduler.partitions.values():
            steps = under_way.setdefault(partition, audit(partition))
            found = list(islice(steps, STEPS))
            assert not any(map(_is_doubt, found))
            if len(found) < STEPS:
                del under_way[partition]
        return effects

    monkeypatch.setattr(Driver, "send", audited)
    for seed in part:
        under_way.clear()
        play_watched(World(seed).steps)
