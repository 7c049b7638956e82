"""Gangs seen from outside: placeholders, and who takes their places (spec § 6)."""

from typing import Any

import pytest

from licorne.si.v1 import si_pb2 as si
from support.peers.served_rm import ServedRm
from support.peers.shim import application, ask, node, resource

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: a, resources: {max: {vcore: 1000m}}}
          - {name: fair, properties: {application.sort.policy: fair}}
"""
REPLACED, TIMEOUT = "PLACEHOLDER_REPLACED", "TIMEOUT"
TOO_SMALL = "cancel placeholder: resource incompatible"
ALLOCATED_IN_VAIN = "releasing allocated placeholders on placeholder timeout"
PENDING_IN_VAIN = "releasing pending placeholders on placeholder timeout"
SECONDS = 60


def gang(
    app_id: str, vcore: int, *, queue: str = "root.a", style: str = "Soft"
) -> si.AddApplicationRequest:
    """An application that wants so much to be held for it."""
    return application(
        app_id,
        queue,
        placeholderAsk=resource(vcore=vcore),
        gangSchedulingStyle=style,
        executionTimeoutMilliSeconds=SECONDS * 1000,
    )


def placeholder(key: str, vcore: int = 300) -> si.Allocation:
    """A placeholder of group g."""
    return ask(key, vcore=vcore, placeholder=True, taskGroupName="g")


def member(key: str, vcore: int = 300) -> si.Allocation:
    """A real ask of group g."""
    return ask(key, vcore=vcore, taskGroupName="g")


@pytest.fixture
async def held(rm: ServedRm) -> ServedRm:
    """A node of 1000 and the gang `app`, whose placeholders p1 and p2 hold 600 there."""
    await rm.register(CONFIG, n1=1000)
    assert await rm.submit(gang("app", 600)) == {}
    await rm.ask(placeholder("p1"), placeholder("p2"))
    heard = await rm.heard()
    assert heard.new == [("p1", "n1"), ("p2", "n1")]
    assert heard.states == [("app", "Accepted"), ("app", "Running")]
    return rm


async def books(rm: ServedRm) -> list[int]:
    """Milli-cores in use as the node, the user and the queue have them."""
    user = await rm.get("usage/user/tester")
    shown: list[dict[str, Any]] = [
        (await rm.get("node/n1"))["allocated"],
        user["queues"]["resourceUsage"],
        (await rm.queue("root.a"))["allocatedResource"],
    ]
    return [amounts.get("vcore", 0) for amounts in shown]


@pytest.mark.row(130)
async def test_a_gang_that_can_never_be_held_is_refused(rm: ServedRm) -> None:
    """More than its queue may have is refused, and so is a queue that shares out evenly."""
    await rm.register(CONFIG, n1=2000)
    refused = await rm.submit(gang("big", 1001), gang("even", 100, queue="root.fair"))
    assert refused["big"].startswith("queue root.a cannot fit application big")
    assert refused["even"].endswith("unsupported sort type")
    assert await rm.submit(gang("app", 1000), application("plain", "root.fair")) == {}


@pytest.mark.row(83, 130)
async def test_a_gang_is_measured_against_the_quota_of_its_own_namespace(rm: ServedRm) -> None:
    """The first gang of a namespace is, and so is one that brings a larger quota than before."""
    rules = "    placementrules: [{name: tag, value: namespace, create: true}]\n"
    await rm.register(f"{CONFIG}{rules}", n1=9000)

    def of_namespace(app_id: str, vcore: int, quota: int) -> si.AddApplicationRequest:
        given = f'{{"resources":{{"vcore":{{"value":{quota}}}}}}}'
        tags = {"namespace": "ns", "namespace.resourcequota": given}
        return application(app_id, placeholderAsk=resource(vcore=vcore), tags=tags)

    refused = await rm.submit(of_namespace("first", 5000, 3000))
    assert refused["first"].endswith("larger than max queue allocation map[vcore:3000]")
    assert await rm.submit(of_namespace("second", 3000, 3000)) == {}
    assert await rm.submit(of_namespace("third", 5000, 6000)) == {}
    assert (await rm.queue("root.ns"))["maxResource"] == {"vcore": 6000}


@pytest.mark.row(12, 16, 131)
async def test_a_member_takes_a_place_when_the_placeholder_is_confirmed(held: ServedRm) -> None:
    """The room counts once: before, while the RM is silent, after, and when it confirms again."""
    await held.ask(member("m1"))
    heard = await held.heard()
    assert heard.released == [("p1", REPLACED, "replacing allocationKey: m1")]
    assert heard.new == []
    assert await books(held) == [600] * 3
    for new in ([("m1", "n1")], [], []):
        await held.release("p1", why=si.PLACEHOLDER_REPLACED)
        assert await held.heard() == (new, [], [])
        assert await books(held) == [600] * 3


@pytest.mark.row(132)
async def test_a_smaller_member_gives_the_rest_back(held: ServedRm) -> None:
    """With the confirmation, and not before it."""
    await held.ask(member("m1", 100))
    assert (await held.heard()).released == [("p1", REPLACED, "replacing allocationKey: m1")]
    assert await books(held) == [600] * 3
    await held.release("p1", why=si.PLACEHOLDER_REPLACED)
    assert (await held.heard()).new == [("m1", "n1")]
    assert await books(held) == [400] * 3


@pytest.mark.row(133)
async def test_a_bigger_member_ends_the_placeholders_and_is_placed_like_any_other(
    held: ServedRm,
) -> None:
    """It waits for the last of them, though there is room beside them; watchers hear of each."""
    await held.ask(member("m1", 350))
    heard = await held.heard()
    assert heard.released == [("p1", TIMEOUT, TOO_SMALL), ("p2", TIMEOUT, TOO_SMALL)]
    assert heard.new == []
    assert await books(held) == [600] * 3
    larger = "Task group 'g' in application 'app': allocation resources 'map[vcore:350]'"
    for key in ("p1", "p2"):
        text = f"{larger} are not matching placeholder 'map[vcore:300]' allocation with ID '{key}'"
        assert [told for told in await held.messages(key) if told] == [text]
    await held.release("p1", why=si.TIMEOUT)
    assert await held.heard() == ([], [], [])
    assert await books(held) == [300] * 3
    await held.release("p2", why=si.TIMEOUT)
    assert await held.heard() == ([("m1", "n1")], [], [])
    assert await books(held) == [350] * 3


@pytest.fixture
async def incomplete(rm: ServedRm) -> ServedRm:
    """A node of 1000 that another application has filled up to 300."""
    await rm.register(CONFIG, n1=1000)
    await rm.submit(application("other", "root.fair"))
    await rm.ask(ask("o1", "other", 700))
    assert (await rm.heard()).keys == ["o1"]
    return rm


async def time_out(rm: ServedRm, style: str) -> list[tuple[str, str]]:
    """A gang of two comes half together and its time runs out; the states that it enters then."""
    await rm.submit(gang("app", 600, style=style))
    await rm.ask(placeholder("p1"), placeholder("p2"))
    assert (await rm.heard()).new == [("p1", "n1")]
    await rm.wait(SECONDS - 1)
    assert (await rm.heard()).released == []
    await rm.wait(1)
    heard = await rm.heard()
    assert heard.released == [
        ("p1", TIMEOUT, ALLOCATED_IN_VAIN),
        ("p2", TIMEOUT, PENDING_IN_VAIN),
    ]
    assert (await rm.queue("root.a"))["allocatedResource"]["vcore"] == 300
    await rm.release("p1", why=si.TIMEOUT)
    after = await rm.heard()
    assert (after.new, after.released) == ([], [])
    assert (await rm.queue("root.a"))["allocatedResource"].get("vcore", 0) == 0
    return heard.states + after.states


@pytest.mark.row(134)
async def test_a_soft_gang_goes_on_without_its_placeholders(incomplete: ServedRm) -> None:
    """It is Resuming until they are gone; what the RM asks for again is placed."""
    assert await time_out(incomplete, "Soft") == [("app", "Resuming"), ("app", "Accepted")]
    await incomplete.ask(member("m1"))
    heard = await incomplete.heard()
    assert (heard.new, heard.states) == ([("m1", "n1")], [("app", "Running")])


@pytest.mark.row(135)
async def test_a_hard_gang_fails(incomplete: ServedRm) -> None:
    """It is Failing until its placeholders are gone, and takes no asks any more."""
    assert await time_out(incomplete, "Hard") == [("app", "Failing"), ("app", "Failed")]
    assert "failed to find application app" in (await incomplete.ask(member("m1")))["m1"]


@pytest.mark.row(136)
async def test_a_gang_that_runs_loses_only_what_is_left_over(held: ServedRm) -> None:
    """The placeholder that nobody took ends; the member stays, and so does the application."""
    await held.ask(member("m1"))
    await held.release("p1", why=si.PLACEHOLDER_REPLACED)
    assert (await held.heard()).new == [("m1", "n1")]
    await held.wait(SECONDS)
    assert await held.heard() == ([], [("p2", TIMEOUT, ALLOCATED_IN_VAIN)], [])
    await held.release("p2", why=si.TIMEOUT)
    assert await held.heard() == ([], [], [])
    assert await books(held) == [300] * 3
    assert (await held.app("app"))["applicationState"] == "Running"


@pytest.mark.row(137)
async def test_the_node_is_lost_while_a_member_takes_a_place(held: ServedRm) -> None:
    """The placeholder ends with its node; the member waits again, and takes the next place."""
    await held.ask(member("m1"))
    assert (await held.heard()).released == [("p1", REPLACED, "replacing allocationKey: m1")]
    await held.tell_nodes(si.NodeInfo(nodeID="n1", action=si.NodeInfo.DECOMISSION))
    heard = await held.heard()
    assert heard.released == [
        ("p1", "STOPPED_BY_RM", "Node n1 Removed"),
        ("p2", "STOPPED_BY_RM", "Node n1 Removed"),
    ]
    assert heard.new == []
    await held.release("p1", why=si.PLACEHOLDER_REPLACED)
    assert await held.heard() == ([], [], [])
    assert await held.used("root.a") == (0, 300)
    await held.tell_nodes(node("n2", vcore=1000))
    assert (await held.heard()).new == [("m1", "n2")]
    assert await held.used("root.a") == (300, 0)
