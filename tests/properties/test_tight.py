"""Compaction and short turns, which otherwise occur only in large clusters, in small clusters."""

from functools import partial

import pytest

from licorne_core.handlers import turn
from licorne_core.model.apps import groups
from licorne_core.scheduling.node_search import index as node_index
from licorne_core.scheduling.node_search import node_heap
from licorne_core.scheduling.waiting import supply as supply_module
from licorne_core.scheduling.waiting import waiting_line
from licorne_core.standard.predicates import owed
from licorne_core.standard.preemption import victim_index, victims
from licorne_core.values import ranking
from properties.test_decisions import agree
from support.worlds import compare


@pytest.fixture
def _no_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compact heaps and logs as often as possible, and keep heaps for only two classes of asks."""
    for module in (ranking, node_heap, waiting_line):
        monkeypatch.setattr(module, "_SLACK", -1000)
    monkeypatch.setattr(groups, "SLACK", -1000)
    monkeypatch.setattr(node_index, "LOG_SLACK", -1000)
    monkeypatch.setattr(victims, "MOST_ENDED", -1)
    monkeypatch.setattr(victim_index, "MOST_REMOVED", -1000)
    monkeypatch.setattr(supply_module, "MAX_HEAPS", 2)
    monkeypatch.setattr(node_index, "PROBES", 1)


@pytest.mark.worlds(first=6_000_000, one_in=10)
@pytest.mark.usefixtures("_no_slack")
def test_compaction_changes_no_decision(part: range) -> None:
    """Core and oracle agree if heaps and logs are compacted as often as possible."""
    agree(part)


@pytest.mark.worlds(first=8_000_000, one_in=10)
def test_an_interrupted_turn_changes_no_decision(part: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Core and oracle agree if each pass stops after one try and continues later."""
    monkeypatch.setattr(turn, "TRIES", 1)
    agree(part)


@pytest.mark.worlds(first=8_500_000, one_in=10)
def test_a_bound_on_open_checks_changes_no_other_decision(
    part: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Core and oracle agree if at most three checks are open, one while the RM is silent."""
    monkeypatch.setattr(owed, "MAX_ASSUMED", 3)
    monkeypatch.setattr(owed, "MAX_ASSUMED_IN_SILENCE", 1)
    monkeypatch.setattr(owed, "MORE_WHILE_QUICK", 1)
    agree(part, partial(compare, most_assumed=(3, 1)))
