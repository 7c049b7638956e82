"""An RM that accepts the stop of victims on a node and then refuses the node causes few further stops."""

from licorne_core.messages.commands import Command, NodeAction, PredicatePolicy
from licorne_core.messages.effects import Effect
from licorne_core.messages.reasons import PreemptionCheck
from licorne_core.values.ids import AppId
from support.core.builders import (
    answering,
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    refusing,
    register,
    release,
    releases,
    reload,
)
from support.core.driver import Driver, asked, released

QUEUES = config(
    "[{name: guest}, {name: owner, resources: {guaranteed: {memory: 9}}}]",
    properties="{preemption.delay: 1s}",
)


class Town:
    """Full nodes, and an RM that accepts stops of victims, but refuses to allocate the owner's asks."""

    def __init__(self, size: int) -> None:
        """Create this number of nodes, each filled by one guest."""
        self.core = Driver()
        self.stops: list[tuple[float, str]] = []
        homes = [f"n{n}" for n in range(size)]
        self.core.do(
            register(QUEUES, predicates=PredicatePolicy()), nodes(*(node(home, memory=1) for home in homes))
        )
        self.core.do(apps(app("guest", "root.guest"), app("owner", "root.owner")))
        self.core.do(*(self.guest(home) for home in homes))
        self.begun = self.core.now

    @staticmethod
    def guest(home: str) -> Command:
        """Place a new guest on a node."""
        return asks(ask("guest", f"on-{home}", on_node=home, memory=1, policy="s"))

    def do(self, command: Command) -> None:
        """Process a command, and all answers of the RM."""
        self._hear(self.core.do(command))

    def wait(self, seconds: int) -> None:
        """Let time pass in steps of one second."""
        for _ in range(seconds):
            self._hear(self.core.wait(1))

    def _hear(self, effects: list[Effect]) -> None:
        for check in asked(effects):
            self._hear(self.core.do(refusing(check, *check.nodes) if check.allocate else answering(check)))
        for app_id, key, why, _ in released(effects):
            if why == "PREEMPTED_BY_SCHEDULER":
                self.stops.append((self.core.now - self.begun, key))
                self._hear(self.core.do(releases(release(app_id, key))))


def wants(town: Town) -> None:
    """Submit an ask of the owner, and wait until the first stop is in vain."""
    town.do(asks(ask("owner", "k", memory=1, policy="o", predicate="p")))
    town.wait(5)


def test_stops_after_refusals_are_rare() -> None:
    """An ask pauses 15 s after a first refusal, 30 s after a second, and preempts no more after a third."""
    town = Town(6)
    wants(town)
    town.wait(150)
    assert town.stops == [(1, "on-n0"), (16, "on-n1"), (46, "on-n2")]


def test_explain_shows_the_end_of_the_pause_after_a_refusal() -> None:
    """The explanation of an ask shows the time from which it may preempt again."""
    town = Town(2)
    wants(town)
    checks = town.core.explain("owner", "k").checks
    (check,) = [check for check in checks if isinstance(check, PreemptionCheck)]
    assert (check.code, check.until) == ("PREEMPTION_NOT_YET_TRIED", town.begun + 16)


def test_a_refused_node_is_cleared_again_once_it_has_changed() -> None:
    """After a change of a refused node, victims on the node may be stopped again."""
    town = Town(1)
    wants(town)
    town.do(town.guest("n0"))
    town.do(nodes(node("n0", NodeAction.UPDATE, memory=1)))
    town.wait(20)
    assert town.stops == [(1, "on-n0"), (16, "on-n0")]


def test_a_reload_ends_the_pause_after_a_refusal() -> None:
    """A reload ends the pause of an ask after a stop in vain."""
    town = Town(2)
    wants(town)
    town.do(reload(QUEUES.replace("preemption.delay: 1s", "preemption.delay: 2s")))
    town.wait(2)
    assert [key for _, key in town.stops] == ["on-n0", "on-n1"]


def test_only_existing_nodes_stay_refused() -> None:
    """A refusal is dropped when its node is removed, and only present nodes are recorded as refused."""
    town = Town(3)
    wants(town)
    town.do(nodes(node("n0", NodeAction.DECOMISSION)))
    town.wait(20)
    partition = town.core.partition
    (group,) = partition.applications[AppId("owner")].groups.values()
    assert [one.node_id for one in group.refused_stops.nodes] == ["n1"]
    assert [key for _, key in town.stops] == ["on-n0", "on-n1"]
