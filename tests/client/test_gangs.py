"""Gangs in the client: placeholders, their ends, and members that the server dropped."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from licorne import (
    Allocated,
    Allocation,
    Application,
    ApplicationRejected,
    ApplicationStateChanged,
    Ask,
    AskDropped,
    AskRejected,
    Confirm,
    Node,
    Rejected,
    Released,
    ReleaseRequested,
    Termination,
)
from licorne.answers import Answers
from licorne.cache import Cache
from licorne.options import GangOptions
from licorne.outgoing import Packer, Replay
from licorne.si.v1 import si_pb2 as si
from support.peers.scripted import FIRST, GANG, KEYS, LEADER


def real(key: str = "r1", vcore: int = 500) -> Ask:
    """A member of the group of workers."""
    return Ask(key=key, application_id="a", resources={"vcore": vcore}, task_group="w")


class Rig:
    """A cache with its answers, and the requests that the client has sent by itself."""

    def __init__(self, application: Application = GANG, **options: Any) -> None:
        """Place a gang on two nodes."""
        self.cache = Cache()
        self.cache.add_nodes(Node(node_id=name, capacity={"vcore": 9000}) for name in ("n1", "n2"))
        self.cache.submit([application], 100)
        self.said: list[Any] = []
        self.answers = Answers(self.cache, GangOptions(**options), self._queue)
        self.answers.applications(
            si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID="a")])
        )

    def _queue(self, add: Callable[[Packer, Iterable[Any]], None], items: Iterable[Any]) -> None:
        self.said += items

    def new(self, key: str, node_id: str = "n1") -> list[Any]:
        """Let the server place an ask."""
        allocation = si.Allocation(allocationKey=key, nodeID=node_id, applicationID="a")
        return self.answers.allocations(si.AllocationResponse(new=[allocation]))

    def told(self, key: str, why: si.TerminationType.ValueType, text: str = "") -> list[Any]:
        """Let the server report or request an end."""
        release = si.AllocationRelease(
            applicationID="a", allocationKey=key, terminationType=why, message=text
        )
        return self.answers.allocations(si.AllocationResponse(released=[release]))

    def enters(self, state: str) -> list[Any]:
        """Let the server report a state of the application."""
        updated = si.UpdatedApplication(applicationID="a", state=state)
        return self.answers.applications(si.ApplicationResponse(updated=[updated]))

    def replayed(self) -> tuple[list[str], list[str]]:
        """The keys of a present replay: allocations, then pending asks."""
        self.answers.begin_replay()
        items = [
            item for request in Replay(self.cache).requests(1000) for item in request.allocations.allocations
        ]
        return (
            [item.allocationKey for item in items if item.nodeID],
            [item.allocationKey for item in items if not item.nodeID],
        )


# ---- Replacement ----


def test_a_known_gang_is_not_submitted_again() -> None:
    """A second submission sends nothing, even after a placeholder has ended."""
    rig = Rig()
    rig.new(FIRST)
    rig.told(FIRST, si.TIMEOUT)
    assert rig.cache.submit([GANG], 200) == ([], [])
    assert FIRST not in rig.cache.asks


def test_a_replacement_is_confirmed() -> None:
    """First the placeholder runs and the member waits, then neither runs, then the member does."""
    rig = Rig()
    rig.cache.ask([real()], 100)
    assert rig.new(FIRST) == [Allocated(FIRST, "a", "n1", "default", placeholder=True)]
    [wanted] = rig.told(FIRST, si.PLACEHOLDER_REPLACED, "replacing allocationKey: r1")
    assert wanted == ReleaseRequested(
        key=FIRST,
        application_id="a",
        node_id="n1",
        termination=Termination.REPLACED,
        message="replacing allocationKey: r1",
        placeholder=True,
        confirmed=True,
    )
    [confirmation] = rig.said
    assert confirmation.allocationKey == FIRST
    assert confirmation.terminationType == si.PLACEHOLDER_REPLACED
    assert FIRST not in rig.cache.asks
    assert rig.cache.asks["r1"].node_id == ""
    assert rig.new("r1") == [Allocated("r1", "a", "n1", "default")]
    assert rig.cache.by_node == {"n1": {"r1"}}


def test_a_repeated_request_is_confirmed_once() -> None:
    """A second request, or a confirmation by the caller, has no effect."""
    rig = Rig()
    rig.new(FIRST)
    assert len(rig.told(FIRST, si.PLACEHOLDER_REPLACED)) == 1
    assert rig.told(FIRST, si.PLACEHOLDER_REPLACED) == []
    assert rig.cache.release([FIRST], Termination.REPLACED) == []
    assert len(rig.said) == 1


@pytest.mark.parametrize(
    ("confirm", "confirmed"),
    [
        (Confirm.NOTHING, []),
        (Confirm.PLACEHOLDERS, [FIRST]),
        (Confirm.EVERYTHING, [FIRST, "r1"]),
    ],
)
def test_the_caller_chooses_what_is_confirmed(confirm: Confirm, confirmed: list[str]) -> None:
    """The event has the remaining work; an unconfirmed allocation remains in the cache."""
    rig = Rig(confirm=confirm)
    rig.cache.ask([real()], 100)
    rig.new(FIRST)
    rig.new("r1")
    events = [
        *rig.told(FIRST, si.PREEMPTED_BY_SCHEDULER),
        *rig.told("r1", si.PREEMPTED_BY_SCHEDULER),
    ]
    assert [item.allocationKey for item in rig.said] == confirmed
    assert [event.key for event in events if event.confirmed] == confirmed
    left = {FIRST, "r1"} - set(confirmed)
    assert {key for key, known in rig.cache.asks.items() if known.node_id} == left
    for key in sorted(left):
        [message] = rig.cache.release([key], Termination.PREEMPTED)
        assert message.terminationType == si.PREEMPTED_BY_SCHEDULER
    assert not rig.cache.by_node


def test_a_confirmation_has_no_answer() -> None:
    """The server does not answer a confirmation, so the next replay reports no release."""
    rig = Rig()
    rig.new(FIRST)
    rig.told(FIRST, si.TIMEOUT)
    assert not rig.cache.releasing
    assert rig.answers.begin_replay() == []


def test_a_placeholder_released_by_the_caller_is_reported() -> None:
    """The server answers the release of a placeholder, and the member replaces it afterwards."""
    rig = Rig()
    rig.cache.ask([real()], 100)
    rig.new(FIRST)
    rig.cache.release([FIRST], Termination.STOPPED)
    assert rig.told(FIRST, si.PLACEHOLDER_REPLACED) == []
    assert rig.told(FIRST, si.STOPPED_BY_RM, "gone") == [Released(FIRST, "a", "n1", "gone", placeholder=True)]
    assert rig.new("r1") == [Allocated("r1", "a", "n1", "default")]


def test_placeholders_of_a_rejected_application_are_not_reported() -> None:
    """Placeholders of a rejected application are not reported; other keys of the application are."""
    rig = Rig()
    rejected = [si.RejectedApplication(applicationID="b", reason="no")]
    gone = [si.RejectedAllocation(allocationKey=f"b-lead-placeholder-{n}", applicationID="b") for n in (1, 2)]
    b = Application(application_id="b", task_groups=(LEADER,))
    for _ in range(2):
        rig.cache.submit([b], 100)
        events = rig.answers.applications(si.ApplicationResponse(rejected=rejected))
        assert events == [ApplicationRejected("b", "no")]
        response = si.AllocationResponse(rejectedAllocations=gone)
        assert rig.answers.allocations(response) == [AskRejected("b-lead-placeholder-2", "b", "")]


def test_a_rejected_placeholder_is_reported() -> None:
    """The application continues without the rejected placeholder."""
    rig = Rig()
    no = si.RejectedAllocation(allocationKey=FIRST, applicationID="a", reason="no")
    response = si.AllocationResponse(rejectedAllocations=[no])
    assert rig.answers.allocations(response) == [AskRejected(FIRST, "a", "no", placeholder=True)]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ({}, "placeholder is False: the ask of this key has True"),
        (
            {"placeholder": True, "task_group": "lead"},
            "task_group is 'lead': the ask of this key has 'w'",
        ),
    ],
)
def test_the_key_of_a_placeholder_is_not_reused(kind: dict[str, Any], reason: str) -> None:
    """An ask or report under the key of a placeholder is refused, and the placeholder remains."""
    rig = Rig()
    wrong = Ask(key=FIRST, application_id="a", resources={"vcore": 900}, **kind)
    with pytest.raises(Rejected) as refused:
        rig.cache.ask([real(), wrong], 100)
    assert (refused.value.key, refused.value.reason) == (FIRST, reason)
    with pytest.raises(Rejected):
        rig.cache.report([Allocation(ask=wrong, node_id="n1")], 100)
    assert rig.cache.asks.keys() == set(KEYS)
    assert rig.cache.asks[FIRST].ask.resources["vcore"] == 500


# ---- Timeouts ----


def soft_timeout(rig: Rig, reals: int = 2) -> list[Any]:
    """Let the timeout occur while members wait and one placeholder runs."""
    rig.cache.ask([real(f"r{number}") for number in range(1, reals + 1)], 123)
    rig.new(FIRST)
    events = rig.enters("Resuming")
    events += rig.told(FIRST, si.TIMEOUT)
    for key in (*KEYS[1:], *(f"r{number}" for number in range(1, reals + 1))):
        events += rig.told(key, si.TIMEOUT, "too late")
    return events


def test_dropped_asks_are_reported_and_forgotten() -> None:
    """A dropped ask is not confirmed, and not submitted again."""
    rig = Rig()
    state, running, *dropped = soft_timeout(rig)
    assert isinstance(state, ApplicationStateChanged)
    assert isinstance(running, ReleaseRequested)
    assert dropped == [
        AskDropped("a-w-placeholder-2", "a", "too late", placeholder=True, resubmitted=False),
        AskDropped("a-lead-placeholder-1", "a", "too late", placeholder=True, resubmitted=False),
        AskDropped("r1", "a", "too late", placeholder=False, resubmitted=False),
        AskDropped("r2", "a", "too late", placeholder=False, resubmitted=False),
    ]
    assert [item.allocationKey for item in rig.said] == [FIRST]
    rig.enters("Accepted")
    assert len(rig.said) == 1
    assert not rig.cache.asks


def test_members_are_submitted_again_on_request() -> None:
    """Members are submitted in order and with their age once the application is Accepted."""
    rig = Rig(resubmit=True)
    dropped = [event for event in soft_timeout(rig) if isinstance(event, AskDropped)]
    assert [event.key for event in dropped if event.resubmitted] == ["r1", "r2"]
    assert not rig.cache.asks
    rig.said.clear()
    rig.enters("Accepted")
    assert [item.allocationKey for item in rig.said] == ["r1", "r2"]
    assert all(item.allocationTags["creationTime"] == "123" for item in rig.said)
    assert all(item.taskGroupName == "w" and not item.placeholder for item in rig.said)
    rig.enters("Accepted")
    assert len(rig.said) == 2
    assert list(rig.cache.asks) == ["r1", "r2"]


def test_members_of_a_failed_gang_are_not_submitted_again() -> None:
    """The application is Failing, and its members are not submitted again."""
    rig = Rig(resubmit=True)
    rig.cache.ask([real()], 100)
    rig.enters("Failing")
    [event] = rig.told("r1", si.TIMEOUT)
    assert not event.resubmitted
    rig.enters("Failed")
    assert rig.replayed() == ([], [])


def test_members_released_meanwhile_are_not_submitted_again() -> None:
    """A member that the caller has released or submitted meanwhile is not submitted again."""
    rig = Rig(resubmit=True)
    soft_timeout(rig, reals=3)
    rig.cache.release(["r1"], Termination.STOPPED)
    assert len(rig.cache.ask([real("r2", 700)], 200)) == 1
    rig.said.clear()
    rig.enters("Accepted")
    assert [item.allocationKey for item in rig.said] == ["r3"]
    assert rig.cache.asks["r2"].ask.resources == {"vcore": 700}


def test_dropped_asks_are_forgotten_with_their_application() -> None:
    """A later application of the same id has no dropped asks."""
    rig = Rig(resubmit=True)
    soft_timeout(rig)
    rig.cache.remove_application(("default", "a"))
    rig.cache.submit([GANG])
    rig.said.clear()
    rig.enters("Accepted")
    assert rig.said == []


# ---- Replay ----


def test_a_replay_during_a_replacement_has_both() -> None:
    """Before a confirmation the placeholder is replayed as an allocation, and the member as an ask."""
    rig = Rig(confirm=Confirm.NOTHING)
    rig.cache.ask([real()], 100)
    rig.new(FIRST)
    rig.told(FIRST, si.PLACEHOLDER_REPLACED)
    assert rig.replayed() == ([FIRST], [*KEYS[1:], "r1"])
    # The new server may request it again, and the caller's confirmation counts for both.
    [again] = rig.told(FIRST, si.PLACEHOLDER_REPLACED)
    assert again.key == FIRST
    assert len(rig.cache.release([FIRST], Termination.REPLACED)) == 1
    assert rig.replayed() == ([], [*KEYS[1:], "r1"])


def test_placeholders_are_replayed_as_placeholders() -> None:
    """Replayed allocations and asks are marked as placeholders, with their task group."""
    rig = Rig()
    rig.new(FIRST, "n2")
    items = [item for request in Replay(rig.cache).requests(1000) for item in request.allocations.allocations]
    assert [(item.allocationKey, item.nodeID) for item in items] == [
        (FIRST, "n2"),
        (KEYS[1], ""),
        (KEYS[2], ""),
    ]
    assert all(item.placeholder for item in items)
    assert [item.taskGroupName for item in items] == ["w", "w", "lead"]
    [application] = [new for request in Replay(rig.cache).requests(1000) for new in request.applications.new]
    assert application.placeholderAsk.resources["vcore"].value == 1100


def test_dropped_members_are_replayed_if_they_will_be_submitted() -> None:
    """Until the state of the application is reported, a replay has the dropped members, each exactly once."""
    rig = Rig(resubmit=True)
    soft_timeout(rig)
    assert rig.replayed() == ([], ["r1", "r2"])
    rig.said.clear()
    rig.enters("Accepted")
    assert rig.said == []
