"""Every setting that a reload may change is in force at once, while applications run (§ 2.7.3)."""

import pytest

from licorne_core.messages.commands import BeginReplay, EndReplay, Tick
from licorne_core.messages.effects import ConfigurationUpdated
from licorne_core.values.ids import RmId
from support.core.builders import (
    RM,
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
    reload,
)
from support.core.driver import START, Driver, keys, placed, refused_apps
from support.core.reports import applications_in

ONE = "[{name: a, properties: {%s}}]"
TWO = "[{name: a, %s}, {name: b}]"
FAIR = "application.sort.policy: fair"


class Town(Driver):
    """A core in which applications compete with equal asks of one byte of memory."""

    def __init__(self, queues: str, *queue_of_app: str, memory: int = 100, rest: str = "") -> None:
        """Create one node; app-0, app-1, … are submitted one second apart, each to its queue."""
        super().__init__()
        self.do(register(config(queues, rest=rest)), nodes(node("n1", memory=memory)))
        for number, queue in enumerate(queue_of_app):
            self.now = START + number
            self.do(apps(app(f"app-{number}", queue)))

    def want(self, app_id: str, count: int, priority: int = 0) -> None:
        """Submit this number of asks, without deciding."""
        wave = [ask(app_id, f"{app_id}-{i}", priority=priority, memory=1) for i in range(count)]
        self.send(asks(*wave))

    def serve(self, count: int) -> list[str]:
        """The applications of the next allocations, after this number of decisions."""
        return [app_id for app_id, _, _ in placed(self.send(Tick(decisions=count)))]

    def follow(self, queues: str, rest: str = "") -> None:
        """Reload, without deciding."""
        answer = self.send(reload(config(queues, rest=rest)))[0]
        assert isinstance(answer, ConfigurationUpdated)
        assert answer.changed


@pytest.mark.row(90)
def test_a_reload_of_offsets_and_fences_reorders_queues() -> None:
    """If a reload adds, fences or removes a priority offset, the order of sibling queues changes."""
    town = Town(TWO % "", "root.a", "root.b")
    town.want("app-0", 20, priority=3)
    town.want("app-1", 20, priority=5)
    assert town.serve(1) == ["app-1"]
    town.follow(TWO % "properties: {priority.offset: '4'}")
    assert (town.queue("root.a").priority, town.serve(2)) == (7, ["app-0"] * 2)
    town.follow(TWO % "properties: {priority.offset: '4', priority.policy: fence}")
    assert (town.queue("root.a").priority, town.serve(2)) == (4, ["app-1"] * 2)
    town.follow(TWO % "properties: {priority.policy: fence}")
    assert town.queue("root.a").priority == 0
    town.follow(TWO % "")
    assert town.queue("root.a").priority == 3


@pytest.mark.row(48)
def test_a_reload_of_inherited_properties_reaches_children() -> None:
    """A property that a reload removes from a parent is no longer in force in its children."""
    queues = "[{name: p, properties: {%s}, queues: [{name: a}]}]"
    town = Town(queues % f"{FAIR}, team: red", "root.p.a")
    assert town.queue("root.p.a").properties["team"] == "red"
    assert town.queue("root.p.a").sort_policy == "fair"
    town.follow(queues % "")
    assert town.queue("root.p.a").properties == {}
    assert town.queue("root.p.a").sort_policy == "fifo"


def test_a_reload_does_not_change_max_applications_of_root() -> None:
    """A reload with another `maxapplications` of root is accepted without effect (spec § 2.7.3)."""
    text = "partitions: [{name: default, queues: [{name: root, maxapplications: %s, submitacl: '*'"
    text += ", queues: [{name: a, maxapplications: %s}]}]}]"
    town = Driver()
    town.do(register(text % (1, 1)), nodes(node("n1", memory=9)))
    town.do(reload(text % (2, 2)), apps(app("app-0", "root.a"), app("app-1", "root.a")))
    town.do(asks(ask("app-0", "k0", memory=1), ask("app-1", "k1", memory=1)))
    assert town.queue("root").max_applications == 1
    assert town.queue("root").running_applications == 1


@pytest.mark.row(39, 40)
def test_a_reload_of_access_lists_keeps_running_applications() -> None:
    """A user who loses access submits nothing new; running applications continue, and may ask for more."""
    open_to = "partitions: [{name: default, queues: [{name: root, queues: [{name: a, %s}]}]}]"
    town = Driver()
    town.do(register(open_to % "submitacl: ann"), nodes(node("n1", memory=9)))
    town.do(apps(app("old", "root.a")), reload(open_to % "adminacl: bob"))
    late = [app("late", "root.a"), app("bobs", "root.a", user="bob")]
    assert refused_apps(town.do(apps(*late))).keys() == {"late"}
    assert keys(town.do(asks(ask("old", "k", memory=1)))) == ["k"]


@pytest.mark.row(43, 44)
def test_a_reload_of_the_node_order_applies_to_the_next_ask() -> None:
    """The next ask is placed by the new node order and weights, although no node has changed."""
    town = Town(ONE % "", "root.a", memory=0)
    town.do(nodes(*(node(n, vcore=10, memory=10) for n in ("n2", "n3", "n4"))))
    town.do(asks(ask("app-0", "cores", on_node="n3", vcore=6)))
    town.do(asks(ask("app-0", "bytes", on_node="n4", memory=3)))
    assert placed(town.do(asks(ask("app-0", "k1", vcore=1)))) == [("app-0", "k1", "n2")]
    packing = "nodesortpolicy: {type: binpacking, resourceweights: {%s: 1}}"
    town.follow(ONE % "", rest=packing % "vcore")
    assert placed(town.do(asks(ask("app-0", "k2", vcore=1)))) == [("app-0", "k2", "n3")]
    town.follow(ONE % "", rest=packing % "memory")
    assert placed(town.do(asks(ask("app-0", "k3", vcore=1)))) == [("app-0", "k3", "n4")]
    report = town.views.partitions()[0]
    assert (report.node_sort_policy, report.node_sort_weights) == ("binpacking", {"memory": 1.0})


@pytest.mark.row(45)
def test_a_reload_changes_both_preemption_switches() -> None:
    """The reported preemption switches are those of the configuration in force."""
    town = Town(ONE % "")
    report = town.views.partitions()[0]
    assert (report.preemption_enabled, report.extended["quota_preemption_enabled"]) == (True, False)
    town.follow(ONE % "", rest="preemption: {enabled: false, quotapreemptionenabled: true}")
    report = town.views.partitions()[0]
    assert (report.preemption_enabled, report.extended["quota_preemption_enabled"]) == (False, True)


@pytest.mark.row(84)
def test_a_reload_leaves_the_recovery_queue_unchanged() -> None:
    """A template in a reload does not apply to the recovery queue, whose applications continue."""
    town = Town(ONE % "")
    town.do(apps(app("forced", "nowhere", tags={"application.create.force": "true"})))
    before = town.queue("root.@recovery@")
    text = "partitions: [{name: default, queues: [{name: root, submitacl: '*', childtemplate: "
    text += "{maxapplications: 1, resources: {max: {memory: 1}}, properties: {%s}}}]}]"
    town.do(reload(text % FAIR))
    assert town.queue("root.@recovery@") == before
    assert (before.state, before.is_managed, before.sort_policy) == ("Active", False, "fifo")
    town.want("forced", 3)
    assert town.serve(9) == ["forced"] * 3


@pytest.mark.row(27)
def test_an_empty_leaf_becomes_a_parent() -> None:
    """An empty leaf that becomes a parent accepts no applications, but its children do."""
    town = Town(TWO % "")
    town.follow(TWO % "queues: [{name: x}]")
    refusals = refused_apps(town.do(apps(app("up", "root.a"), app("down", "root.a.x"))))
    assert refusals.keys() == {"up"}
    assert not town.queue("root.a").is_leaf


@pytest.mark.row(27)
def test_a_parent_becomes_a_leaf_after_its_children_are_removed() -> None:
    """A parent that becomes a leaf accepts nothing in its children, and is a leaf once they are removed."""
    creates = "placementrules: [{name: provided, create: true}]"
    town = Town(TWO % "parent: true", "root.a.made", rest=creates)
    town.follow(TWO % "", rest=creates)
    late = [app("same", "root.a.made"), app("other", "root.a.more"), app("itself", "root.a")]
    assert refused_apps(town.do(apps(*late))) == {
        "same": "failed to place application same: application rejected: "
        "no placement rule matched: rule 1 (provided): root.a.made is below root.a, which is to "
        "become a leaf",
        "other": "failed to create rule based queue root.a.more for application other\n"
        "creation of queue root.a.more failed parent is already a leaf: root.a",
        "itself": "failed to place application itself: application rejected: "
        "no placement rule matched: rule 1 (provided): root.a is no leaf",
    }
    town.want("app-0", 1)
    assert town.serve(9) == ["app-0"]
    town.do(releases(release("app-0")))
    town.wait(41.0)
    assert town.queue("root.a").is_leaf
    assert refused_apps(town.do(apps(app("itself", "root.a")))) == {}


@pytest.mark.row(22, 57)
def test_a_partition_that_is_added_again_starts_empty() -> None:
    """A partition that is added again has its queues, but no former applications and nodes."""
    second = config("[{name: a}]", name="second").removeprefix("partitions:\n")
    both = config("[{name: a}]") + second
    town = Town("[{name: a}]")
    town.do(reload(both), nodes(node("n2", partition="second", memory=5)))
    new = apps(app("there", "root.a", partition="second"))
    assert refused_apps(town.do(new)) == {}
    effects = town.do(asks(ask("there", "k", partition="second", memory=1)))
    assert placed(effects) == [("there", "k", "n2")]
    town.do(reload(config("[{name: a}]")), reload(both))
    report = town.views.partitions()[1]
    assert (report.nodes, report.allocations, report.pending_asks) == (0, 0, 0)
    assert applications_in(town.views, report.name) == []
    assert refused_apps(town.do(new)) == {}


def test_a_reload_does_not_shorten_a_back_off() -> None:
    """A back-off that a reload switches off still ends at its time."""
    rests = "application.unschedasks.backoff: '1', application.unschedasks.backoff.delay: 5s"
    town = Town(ONE % rests, "root.a", memory=5)
    town.do(nodes(node("n2", memory=5)))
    town.do(asks(ask("app-0", "big", priority=1, memory=6), ask("app-0", "small", memory=1)))
    assert town.app("app-0").extended["backoff_until"] == town.now + 5
    town.follow(ONE % "")
    assert keys(town.wait(4.9)) == []
    assert keys(town.wait(0.2)) == ["small"]


def test_a_reload_during_a_replay_keeps_the_hold_of_the_replay() -> None:
    """A reload during a replay is in force, but nothing is scheduled before the replay has ended."""
    town = Town(TWO % "resources: {max: {memory: 1}}", "root.a")
    town.do(BeginReplay(rm_id=RmId(RM)))
    town.want("app-0", 4)
    assert keys(town.do(reload(config(TWO % "resources: {max: {memory: 2}}")))) == []
    ended = town.do(EndReplay(rm_id=RmId(RM), nodes=0, applications=0, allocations=4))
    assert len(keys(ended)) == 2


def test_an_application_keeps_its_place_through_reloads() -> None:
    """After a reload the asks of an application, their order and their times are unchanged."""
    town = Town(ONE % "", "root.a")
    town.want("app-0", 3)
    before = town.app("app-0")
    town.follow(TWO % "")
    assert town.app("app-0") == before
