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


def usage_in(path: str, vcore: int, running: list[str], **limits: object) -> dict[str, object]:
    """One queue of a usage tree without children."""
    return {
        "queuePath": path,
        "resourceUsage": {"vcore": vcore},
        "runningApplications": running,
        "maxResources": limits.get("max", {}),
        "maxApplications": limits.get("apps", 0),
        "children": [],
    }


@pytest.mark.row(155, 158)
async def test_a_user_has_a_tree_of_usage(site: Site) -> None:
    """What a user has and may have, queue by queue, and the group of each application."""
    fill(site)
    found = await site.get(f"{PATH}/user/ann")
    root = usage_in("root", 4, ["one", "two"], max={"vcore": 9}, apps=3)
    root["children"] = [usage_in("root.a", 2, ["one"]), usage_in("root.b", 2, ["two"])]
    assert found == {"userName": "ann", "groups": {"one": "dev"}, "queues": root}


@pytest.mark.row(156)
async def test_a_group_has_the_applications_that_count_for_it(site: Site) -> None:
    """A group's usage is that of its applications."""
    fill(site)
    root = usage_in("root", 2, ["one"], max={"vcore": 8})
    root["children"] = [usage_in("root.a", 2, ["one"])]
    assert await site.get(f"{PATH}/group/dev") == {
        "groupName": "dev",
        "applications": ["one"],
        "queues": root,
    }


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


@pytest.mark.parametrize(
    "path", [f"{PATH}/user/eve", f"{PATH}/group/eve", "/ws/v1/partition/x/usage/users"]
)
async def test_what_is_not_there_is_404(site: Site, path: str) -> None:
    """A user, group or partition that nobody knows."""
    fill(site)
    assert "not found" in (await site.refused(path))["message"]
