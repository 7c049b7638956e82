"""The page over a core that the test drives, with a feed that samples without a delay."""

import pytest

from licorne_server.http.ui import feed, mirrors
from support.patience import PATIENCE
from support.server import http_scenes
from support.server.http_site import Site


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let samples have no delay of a second."""
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.01)


@pytest.fixture(autouse=True)
def _waits_for_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no member count as lost because the machine is slow."""
    monkeypatch.setattr(mirrors, "FIRST_SECONDS", PATIENCE)


@pytest.fixture
def town(site: Site) -> Site:
    """An RM with two queues, two nodes, an application that runs and one that waits."""
    http_scenes.town(site)
    return site
