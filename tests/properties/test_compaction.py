"""What is kept lazily is thrown out in time, and nothing with it that is still wanted."""

import pytest

from licorne_core import ranking
from licorne_core.apps import application
from licorne_core.scheduling import candidates
from licorne_core.tuning import Tuning
from properties.test_decisions import agree


@pytest.fixture
def _no_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heaps and logs are compacted at every occasion, and two classes of asks have a heap."""
    monkeypatch.setattr(ranking, "_SLACK", -1000)
    monkeypatch.setattr(application, "RUN_SLACK", -1000)
    monkeypatch.setattr(candidates, "LOG_SLACK", -1000)
    monkeypatch.setattr(candidates, "MAX_HEAPS", 2)
    monkeypatch.setattr(candidates, "PROBES", 1)


@pytest.mark.usefixtures("_no_slack")
def test_compaction_changes_no_decision(worlds: int) -> None:
    """However often heaps and logs are compacted, the decisions are the oracle's."""
    agree(range(6_000_000, 6_000_000 + worlds // 6), Tuning())
