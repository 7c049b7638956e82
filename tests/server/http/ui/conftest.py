"""The page over a core that the test drives by hand, with a feed that looks without a delay."""

import pytest

from licorne_server.http.ui import feed, mirrors
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.patience import PATIENCE
from support.server.http_site import Site, happened


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks have no delay of a second in tests."""
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.01)


@pytest.fixture(autouse=True)
def _waits_for_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """No member counts as lost because the machine is slow."""
    monkeypatch.setattr(mirrors, "FIRST_SECONDS", PATIENCE)


@pytest.fixture
def town(site: Site) -> Site:
    """An RM with two queues, two nodes, an application that runs and one that waits."""
    site.driver.do(
        register(config("[{name: runs}, {name: full, resources: {max: {vcore: 2}}}]")),
        nodes(node("n1", vcore=8000, memory=100), node("n2", vcore=8000, memory=100)),
        apps(app("runner", "root.runs", user="ann"), app("waiter", "root.full", user="bob")),
        asks(
            ask("runner", "r1", vcore=1000, memory=10),
            ask("waiter", "w1", vcore=2000, memory=10),
            ask("waiter", "w2", vcore=1000, memory=10),
        ),
    )
    happened(site)
    return site
