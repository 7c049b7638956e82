"""Usage of users and groups over REST (spec § 12.4)."""

import pytest

from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.server.http_site import Site

LIMITED = """
partitions:
  - name: default
    limits:
      - {limit: users, users: [ann], maxresources: {vcore: 9m}, maxapplications: 3}
      - {limit: groups, groups: [dev], maxresources: {vcore: 8m}}
    queues:
      - name: root
        submitacl: '*'
        queues: [{name: a}, {name: b}]
"""
PATH = "/ws/v1/partition/default/usage"


def fill(site: Site) -> None:
    """Two users, one of them in a group with a limit, in two queues."""
    site.driver.do(
        register(LIMITED),
        nodes(node("n1", vcore=100)),
        apps(app("one", "root.a", user="ann", groups=["dev"])),
        apps(app("two", "root.b", user="ann"), app("three", "root.b", user="bob")),
        asks(*(ask(who, who, vcore=2) for who in ("one", "two", "three"))),
    )


async def test_lists_are_by_name(site: Site) -> None:
    """All users and groups that have applications, or a limit of their own."""
    assert site.driver.do(register(config("[{name: a}]")))
    assert await site.get(f"{PATH}/users") == []
    assert await site.get(f"{PATH}/groups") == []
    assert site.driver.do(register(LIMITED))
    assert [user["userName"] for user in await site.get(f"{PATH}/users")] == ["ann"]
    assert [group["groupName"] for group in await site.get(f"{PATH}/groups")] == ["dev"]
    fill(site)
    assert [user["userName"] for user in await site.get(f"{PATH}/users")] == ["ann", "bob"]
    assert [group["groupName"] for group in await site.get(f"{PATH}/groups")] == ["dev"]


@pytest.mark.parametrize("path", [f"{PATH}/user/eve", f"{PATH}/group/eve", "/ws/v1/partition/x/usage/users"])
async def test_what_is_not_there_is_404(site: Site, path: str) -> None:
    """A user, group or partition that nobody knows."""
    fill(site)
    assert "not found" in (await site.refused(path))["message"]
