"""The submission of a gang: the sum of its placeholders, and the asks for them."""

from typing import Any

import pytest

from licorne import Allocation, Application, Ask, Client, Rejected, TaskGroup, placeholder_key, placeholders
from licorne.cache import Cache
from support.peers.scripted import FIRST, GANG, KEYS, LEADER, WORKERS


def test_a_gang_is_submitted_with_the_sum_and_the_asks_of_its_placeholders() -> None:
    """The application has the sum, style and timeout; each member has a placeholder."""
    [application], asks = Cache().submit([GANG], 100)
    assert {name: q.value for name, q in application.placeholderAsk.resources.items()} == {
        "vcore": 1100,
        "memory": 20,
    }
    assert application.gangSchedulingStyle == "Hard"
    assert application.executionTimeoutMilliSeconds == 60_000
    assert [ask.allocationKey for ask in asks] == KEYS
    assert [ask.taskGroupName for ask in asks] == ["w", "w", "lead"]
    assert all(ask.placeholder and ask.applicationID == "a" for ask in asks)
    assert asks[0].priority == 3
    assert dict(asks[0].allocationTags) == {"zone": "a"}
    assert asks[0].preemptionPolicy.allowPreemptSelf
    assert not asks[2].HasField("preemptionPolicy")
    assert placeholder_key("a", "w", 2) == KEYS[1]
    assert [ask.key for ask in placeholders(GANG)] == KEYS


def test_placeholders_can_be_left_out_after_a_restart() -> None:
    """The sum is sent without the placeholders, and remaining placeholders are reported one by one."""
    cache = Cache()
    [application], asks = cache.submit([GANG])
    assert application.placeholderAsk.resources["vcore"].value == 1100
    assert asks == []
    left = placeholders(GANG)[1]
    [message] = cache.report([Allocation(ask=left, node_id="n1")], 100)
    assert (message.placeholder, message.taskGroupName, message.nodeID) == (True, "w", "n1")


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        (WORKERS, "task_groups is TaskGroup("),
        (("w",), "task_groups[0] is 'w': it must be a TaskGroup"),
        (
            (TaskGroup(name="w", members=0, resources={}),),
            "task_groups[0].members is 0: it must lie between 1 and 1000000",
        ),
        (
            (TaskGroup(name="w", members=1, resources={"vcore": -1}),),
            "vcore is -1: an amount must lie between 0 and 2^63 - 1",
        ),
        ((TaskGroup(name="", members=1, resources={}),), "task_groups[0].name is empty"),
        (
            (TaskGroup(name="w", members=1, resources={"vcore": 0}),),
            "task_groups[0].resources is {'vcore': 0}: a placeholder must hold some",
        ),
        (
            (TaskGroup(name="a\nb", members=1, resources={"vcore": 1}),),
            "task_groups[0].name is 'a\\nb': it must be printable",
        ),
        (
            (TaskGroup(name="w" * 500, members=1, resources={"vcore": 1}),),
            "task_groups[0].name makes keys of 516 characters: 512 at most can be sent",
        ),
        ((WORKERS,) * 1001, "task_groups has 1001 entries: there may be 1000 at most"),
        ((WORKERS, WORKERS), "task_groups[1].name is 'w': another group has it"),
        (
            (TaskGroup(name="w", members=2, resources={"vcore": 2**62}),),
            "vcore of all placeholders is 9223372036854775808: an amount must lie between",
        ),
    ],
)
def test_invalid_task_groups_are_refused_by_name_and_value(groups: Any, reason: str) -> None:
    """If a task group is invalid, none of the call's items is submitted."""
    cache = Cache()
    with pytest.raises(Rejected) as refusal:
        cache.submit([Application(application_id="a", task_groups=groups)], 100)
    assert refusal.value.reason.startswith(reason)
    assert not cache.applications
    assert not cache.asks


def test_task_groups_exclude_a_sum() -> None:
    """Task groups and a sum exclude each other, because they could differ."""
    both = Application(application_id="a", task_groups=(LEADER,), placeholder_resources={"vcore": 1})
    with pytest.raises(Rejected, match="placeholder_resources is given beside task_groups"):
        Cache().submit([both], 100)


def test_the_key_of_a_placeholder_must_be_unused() -> None:
    """A gang whose placeholder would have the key of another ask is refused as a whole."""
    cache = Cache()
    cache.ask([Ask(key=FIRST, application_id="other", resources={"vcore": 1})], 100)
    with pytest.raises(Rejected, match=f"^a: another ask has the key {FIRST} of a placeholder$"):
        cache.submit([GANG], 100)
    assert not cache.applications
    namesakes = [
        Application(application_id="x", task_groups=(LEADER,), partition=name) for name in ("default", "gpu")
    ]
    with pytest.raises(Rejected, match="the key x-lead-placeholder-1"):
        cache.submit(namesakes, 100)


def test_placeholders_can_be_submitted_separately() -> None:
    """The sum and the asks can be submitted separately, without task groups."""
    cache = Cache()
    by_hand = Application(application_id="a", placeholder_resources={"vcore": 500})
    [application], asks = cache.submit([by_hand], 100)
    assert application.placeholderAsk.resources["vcore"].value == 500
    assert asks == []
    ask = Ask(key="p", application_id="a", resources={"vcore": 500}, placeholder=True, task_group="w")
    [message] = cache.ask([ask], 100)
    assert (message.placeholder, message.taskGroupName) == (True, "w")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"confirm": True}, "confirm is True: it must be a Confirm"),
        ({"resubmit": "yes"}, "resubmit is 'yes': it must be True or False"),
    ],
)
async def test_options_of_other_types_are_refused(fields: Any, text: str) -> None:
    """The error names the argument and its value."""
    with pytest.raises(ValueError, match=f"^{text}$"):
        Client("127.0.0.1:1", rm_id="rm1", **fields)
