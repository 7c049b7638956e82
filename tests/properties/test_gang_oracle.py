"""The plain scheduler knows gangs as the specification has them (spec § 6), told step by step."""

from dataclasses import replace

from licorne_core.messages.commands import Command, NodeAction, Tick
from licorne_core.messages.commands import TerminationType as Why
from licorne_core.values.asks import Ask
from support.core.builders import (
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
    remove_apps,
)
from support.oracle import Made, Oracle, PartitionOracle, Released
from support.oracle.books import AppRecord
from support.oracle.gangs import Counts, counts, is_replaceable
from support.oracle.turns import carry_out, peek

START = 1_000_000.0


class Stage:
    """An oracle that decides all it can after each command."""

    def __init__(self, queue: str = "{name: a, submitacl: '*'}") -> None:
        """A partition with one leaf, and two nodes that hold four members each."""
        self.oracle = Oracle(reserving=True, most_assumed=(10, 10))
        self.now = START
        self.do(register(config(f"[{queue}]")))
        self.do(nodes(node("n1", vcore=4), node("n2", vcore=4)))

    @property
    def partition(self) -> PartitionOracle:
        """The only one."""
        (partition,) = self.oracle.partitions.values()
        return partition

    @property
    def app(self) -> AppRecord:
        """The only one."""
        (record,) = self.partition.apps.values()
        return record

    def do(self, command: Command) -> tuple[list[tuple[str, str]], list[Released]]:
        """Hand in the command: keys and nodes of what is made, and what is told to end."""
        self.oracle.handle(command, self.now)
        partitions = list(self.oracle.partitions.values())
        for partition in partitions:
            while (decision := peek(partition, self.now).decision) is not None:
                carry_out(partition, decision, self.now)
        made: list[Made] = [one for partition in partitions for one in partition.made]
        ended = [one for partition in partitions for one in partition.released]
        return [(one.key, one.node_id) for one in made], ended

    def wait(self, seconds: float) -> list[Released]:
        """Let time pass; what is told to end."""
        self.now += seconds
        return self.do(Tick())[1]

    def submit(self, *, wanted: int = 2, style: str = "Soft", timeout: int = 10_000) -> None:
        """A gang that wants so many members of one core each."""
        new = replace(
            app("app-1", "root.a"),
            placeholder_ask={"vcore": wanted},
            gang_scheduling_style=style,
            execution_timeout=timeout,
        )
        self.do(apps(new))

    def states(self) -> dict[str, str]:
        """What has become of each key."""
        return {
            **dict.fromkeys(self.app.asks, "pending"),
            **{key: pair.state for key, pair in self.app.pairs.items()},
            **{key: one.state for key, one in self.app.allocations.items()},
        }


def member(key: str, *, vcore: int = 1, on_node: str | None = None) -> Ask:
    """A real ask of the group."""
    return replace(ask("app-1", key, vcore=vcore, on_node=on_node), task_group="g")


def holder(key: str, *, vcore: int = 1, on_node: str | None = None) -> Ask:
    """A placeholder of the group."""
    return replace(member(key, vcore=vcore, on_node=on_node), placeholder=True)


def gang(*placeholders: str, wanted: int = 2, style: str = "Soft") -> Stage:
    """A gang with these placeholders on their nodes."""
    stage = Stage()
    stage.submit(wanted=wanted, style=style)
    stage.do(asks(*map(holder, placeholders)))
    return stage


def told(key: str, why: str, message: str) -> Released:
    """What the RM is told of a key."""
    return Released("app-1", key, why, message)


def test_an_application_runs_once_all_its_placeholders_are_there() -> None:
    """One of two is not enough."""
    stage = Stage()
    stage.submit()
    assert stage.do(asks(holder("p1")))[0] == [("p1", "n1")]
    assert stage.app.state == "Accepted"
    stage.do(asks(holder("p2")))
    assert stage.app.state == "Running"


def test_a_real_ask_takes_the_place_of_a_placeholder() -> None:
    """The RM is told to stop it, and hears of the real one when it has; nothing is acknowledged."""
    stage = gang("p1", "p2")
    made, ended = stage.do(asks(member("r1")))
    assert made == []
    assert ended == [told("p1", "PLACEHOLDER_REPLACED", "replacing allocationKey: r1")]
    assert stage.states() == {"p1": "releasing", "p2": "placeholder", "r1": "linked"}
    confirmed = releases(release("app-1", "p1", why=Why.PLACEHOLDER_REPLACED))
    assert stage.do(confirmed) == ([("r1", "n1")], [])
    assert counts(stage.app, "g") == Counts(taken=2, replaced=1, timed_out=0)
    assert stage.do(confirmed) == ([], [])


def test_a_real_ask_waits_for_a_placeholder_that_is_not_there_yet() -> None:
    """It is no normal ask as long as one of its group is open."""
    stage = Stage()
    stage.submit(wanted=9)
    stage.do(asks(holder("p1", vcore=9)))
    assert stage.do(asks(member("r1"))) == ([], [])
    assert is_replaceable(stage.app, stage.app.asks["r1"])
    stage.do(releases(release("app-1", "p1")))
    assert stage.states() == {"r1": "allocated"}
    assert counts(stage.app, "g") == Counts(taken=1, replaced=0, timed_out=1)


def test_too_small_a_placeholder_is_cancelled() -> None:
    """All of them are, and the real ask is a normal one when they have ended."""
    stage = gang("p1", "p2")
    made, ended = stage.do(asks(member("r1", vcore=2)))
    why = "cancel placeholder: resource incompatible"
    assert ended == [told("p1", "TIMEOUT", why), told("p2", "TIMEOUT", why)]
    assert made == []
    assert stage.do(releases(release("app-1", "p1", why=Why.TIMEOUT))) == ([], [])
    assert counts(stage.app, "g") == Counts(taken=2, replaced=0, timed_out=1)
    assert stage.do(releases(release("app-1", "p2", why=Why.TIMEOUT))) == ([("r1", "n1")], [])
    assert counts(stage.app, "g") == Counts(taken=2, replaced=0, timed_out=2)


def test_what_was_cancelled_counts_when_time_is_up() -> None:
    """The RM has not confirmed, and nobody waits for that any longer."""
    stage = gang("p1", "p2")
    stage.do(asks(member("r1", vcore=2)))
    assert stage.wait(9.0) == []
    assert counts(stage.app, "g") == Counts(taken=2, replaced=0, timed_out=0)
    assert stage.wait(1.0) == []
    assert counts(stage.app, "g") == Counts(taken=2, replaced=0, timed_out=2)
    assert stage.states()["r1"] == "allocated"


def test_what_the_rm_stops_is_acknowledged_before_the_real_one_comes() -> None:
    """Whatever ends the placeholder, the real one takes its place."""
    stage = gang("p1", "p2")
    stage.do(asks(member("r1")))
    made, ended = stage.do(releases(release("app-1", "p1")))
    assert ended == [told("p1", "STOPPED_BY_RM", "allocation remove as per RM request")]
    assert made == [("r1", "n1")]


def test_a_soft_gang_starts_again_after_its_time() -> None:
    """All is told to stop, and the application waits for its asks to be made anew."""
    stage = gang("p1", wanted=3)
    stage.do(asks(holder("p2", vcore=9), member("r1", vcore=9)))
    stage.wait(9.0)
    assert stage.app.state == "Accepted"
    ended = stage.wait(1.0)
    pending = "releasing pending placeholders on placeholder timeout"
    assert [one for one in ended if one.key != "p1"] == [
        told("p2", "TIMEOUT", pending),
        told("r1", "TIMEOUT", pending),
    ]
    assert stage.app.state == "Resuming"
    stage.do(asks(member("r2")))
    assert stage.states() == {"p1": "releasing", "r2": "pending"}
    stage.do(releases(release("app-1", "p1", why=Why.TIMEOUT)))
    assert stage.states() == {"r2": "allocated"}


def test_a_hard_gang_fails_after_its_time() -> None:
    """It leaves when the last placeholder has gone, and takes no asks meanwhile."""
    stage = gang("p1", wanted=3, style="hARD")
    why = "releasing allocated placeholders on placeholder timeout"
    assert stage.wait(10.0) == [told("p1", "TIMEOUT", why)]
    assert stage.app.state == "Failing"
    stage.do(asks(member("r1")))
    assert stage.states() == {"p1": "releasing"}
    stage.do(releases(release("app-1", "p1", why=Why.TIMEOUT)))
    assert not stage.partition.apps


def test_a_running_gang_goes_on_without_the_placeholders_left() -> None:
    """What is linked stays so."""
    stage = gang("p1", "p2", "p3", wanted=3)
    stage.do(asks(member("r1")))
    why = "releasing allocated placeholders on placeholder timeout"
    assert stage.wait(10.0) == [told("p2", "TIMEOUT", why), told("p3", "TIMEOUT", why)]
    assert stage.app.state == "Running"
    assert stage.states()["r1"] == "linked"
    stage.do(asks(member("r2")))
    assert stage.states()["r2"] == "pending"


def test_placeholders_go_when_the_application_has_completed() -> None:
    """They are told to stop after thirty seconds; with the last one the application leaves."""
    stage = gang("p1", "p2")
    stage.app.gang.timeout = 1000.0
    stage.do(asks(holder("p3"), member("r1")))
    stage.do(releases(release("app-1", "p1", why=Why.PLACEHOLDER_REPLACED)))
    stage.partition.timers.cancel(("placeholders", "app-1"))
    stage.do(releases(release("app-1", "r1")))
    assert stage.app.state == "Completing"
    why = "releasing placeholders on app complete"
    assert stage.wait(30.0) == [told("p2", "TIMEOUT", why), told("p3", "TIMEOUT", why)]
    stage.do(releases(release("app-1", "p2", why=Why.TIMEOUT)))
    assert stage.app.state == "Completing"
    stage.do(releases(release("app-1", "p3", why=Why.TIMEOUT)))
    assert not stage.partition.apps


def test_a_real_ask_waits_again_when_its_place_is_lost_with_the_node() -> None:
    """The placeholder counts as timed out, and the next one is found."""
    stage = gang("p1", "p2")
    stage.do(asks(member("r1")))
    _, ended = stage.do(nodes(node("n1", NodeAction.DECOMISSION)))
    assert ended == [
        told("p1", "STOPPED_BY_RM", "Node n1 Removed"),
        told("p2", "PLACEHOLDER_REPLACED", "replacing allocationKey: r1"),
    ]
    assert counts(stage.app, "g") == Counts(taken=2, replaced=0, timed_out=1)
    assert stage.states() == {"p2": "releasing", "r1": "linked"}


def test_a_linked_ask_that_the_rm_drops_leaves_its_placeholder_stopping() -> None:
    """The placeholder counts as timed out, and its confirmation frees it."""
    stage = gang("p1", "p2")
    stage.do(asks(member("r1")))
    assert stage.do(releases(release("app-1", "r1", why=Why.TIMEOUT))) == ([], [])
    assert stage.states()["r1"] == "linked"
    assert stage.do(releases(release("app-1", "r1"))) == ([], [])
    assert stage.states() == {"p1": "releasing", "p2": "placeholder"}
    assert counts(stage.app, "g") == Counts(taken=2, replaced=0, timed_out=1)
    stage.do(releases(release("app-1", "p1", why=Why.PLACEHOLDER_REPLACED)))
    assert counts(stage.app, "g") == Counts(taken=2, replaced=0, timed_out=1)


def test_all_of_an_application_at_once() -> None:
    """A confirmation for everything keeps asks, so those that are linked come."""
    stage = gang("p1", "p2")
    stage.do(asks(member("r1")))
    made, ended = stage.do(releases(release("app-1", why=Why.TIMEOUT)))
    assert (made, ended) == ([("r1", "n1")], [])
    assert stage.states() == {"r1": "allocated"}


def test_a_placeholder_that_could_not_run_is_asked_for_again() -> None:
    """It stays open while it backs off."""
    stage = gang("p1", "p2")
    made, _ = stage.do(releases(release("app-1", "p1", why=Why.SCHEDULING_FAILED_ON_RM)))
    assert made == []
    assert counts(stage.app, "g") == Counts(taken=2, replaced=0, timed_out=0)


def test_recovered_placeholders_count() -> None:
    """They are replaced as any other, and make the application run."""
    stage = Stage()
    stage.submit()
    stage.do(asks(holder("p1", on_node="n1")))
    assert stage.app.state == "Accepted"
    stage.do(asks(holder("p2", on_node="n2")))
    assert stage.app.state == "Running"
    assert stage.do(asks(member("r1")))[1][0].key == "p1"


def test_gangs_are_not_admitted_everywhere() -> None:
    """A fair leaf takes none, and none that is larger than a maximum."""
    fair = Stage("{name: a, submitacl: '*', properties: {application.sort.policy: fair}}")
    fair.submit()
    assert not fair.partition.apps
    small = Stage("{name: a, submitacl: '*', resources: {max: {vcore: 3m}}}")
    small.submit(wanted=4)
    assert not small.partition.apps
    small.submit(wanted=3)
    assert list(small.partition.apps) == ["app-1"]


def test_removing_the_application_ends_all_that_is_booked() -> None:
    """The real ask that was linked is an ask, of which the RM hears nothing."""
    stage = gang("p1", "p2")
    stage.do(asks(member("r1")))
    _, ended = stage.do(remove_apps("app-1"))
    why = "Application app-1 Removed"
    assert ended == [told("p1", "STOPPED_BY_RM", why), told("p2", "STOPPED_BY_RM", why)]
