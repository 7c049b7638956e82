"""Lists of applications over REST, by queue and state."""

from dataclasses import replace

import pytest

from licorne_core.values.asks import Ask
from support.core.builders import app, apps, ask, asks, node, nodes, register
from support.server.http_site import Site

BASE = "/ws/v1/partition/default/"
CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: a
          - name: b
"""


@pytest.fixture
def ready(site: Site) -> Site:
    """Two leaves, a node with room for two asks, and an application in each leaf."""
    site.driver.do(
        register(CONFIG),
        nodes(node("n1", vcore=1000, memory=100)),
        apps(app("app-2", "root.b"), app("app-1", "root.a", user="ann", groups=["dev", "ops"])),
    )
    return site


async def test_lists_of_a_queue_and_of_a_partition(ready: Site) -> None:
    """A leaf lists its own, a parent none, and a partition all, ordered by id."""

    async def ids(path: str) -> list[str]:
        return [shown["applicationID"] for shown in await ready.get(BASE + path)]

    assert await ids("queue/root.a/applications") == ["app-1"]
    assert await ids("queue/root.a/applications/active") == ["app-1"]
    assert await ids("queue/root/applications") == []
    assert await ids("applications/active") == ["app-1", "app-2"]
    assert await ids("applications/completed") == []


async def test_status_picks_from_the_active_ones(ready: Site) -> None:
    """With a status only applications in that state are listed; its case does not matter."""
    ready.driver.do(asks(ask("app-1", "k1", vcore=1)))

    for status, found in {"Running": ["app-1"], "new": ["app-2"], "failing": []}.items():
        listed = await ready.get(f"{BASE}applications/active?status={status}")
        assert [shown["applicationID"] for shown in listed] == found


def member(key: str, *, placeholder: bool = False) -> Ask:
    """A member of the task group, or a placeholder for one."""
    return replace(ask("gang", key, vcore=2), placeholder=placeholder, task_group="workers")
