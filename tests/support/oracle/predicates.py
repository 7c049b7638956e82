"""The RM's checks of nodes (spec § 8.4) and of victims (§ 9.4.5), and their results.

The core chooses how many nodes a check names; the oracle uses the core's checks once they pass `check_sense`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from licorne_core.messages.effects import AskedCheck, AskedPreemption
from support.oracle.books import AppRecord, AskClass, AskRecord, NodeRecord
from support.oracle.checks import is_behind, may_start, takes, within_limits
from support.oracle.gangs import is_replaceable
from support.oracle.order import Look, node_key
from support.oracle.terms import NO_ANSWER, ReservationRecord, WishRecord
from support.oracle.victims import Name, Plan, Preemption, search_for, stands


@dataclass(eq=False)
class VictimCheck:
    """A check of victims for one ask. `sent`: it was written to the RM.

    `forms` counts the forms of the ask at the time of the check; `known` are the victims with their nodes
    then.
    """

    app: AppRecord
    ask: AskRecord
    forms: int
    wish: WishRecord
    plans: tuple[Plan, ...]
    known: dict[Name, tuple[AppRecord, AskRecord, str]]
    sent: bool = False


class Judging:
    """The open checks of victims of a partition; `said` are the core's new ones."""

    def __init__(self) -> None:
        """Start without checks."""
        self.open: dict[int, VictimCheck] = {}
        self.said: list[AskedPreemption] = []


def ask_who_goes(apps: Mapping[str, AppRecord], judging: Judging, decision: Preemption) -> None:
    """Open the check that the core sent to the RM; it must equal the decision."""
    check = question(apps, decision)
    app, ask = check.app, check.ask
    assert judging.said, f"the core should have asked who goes for {ask}"
    said = judging.said.pop(0)
    got = [(node.node_id, [(v.app_id, v.key) for v in node.victims], node.start) for node in said.nodes]
    wanted = [(plan.node_id, [*plan.on_node, *plan.spare], len(plan.on_node) - 1) for plan in decision.plans]
    assert (said.app_id, said.key) == (app.app_id, ask.key), f"core asks for {said}, not {ask}"
    assert got == wanted, f"core offers {got} for {ask}, oracle {wanted}"
    judging.open[said.check] = check


def question(apps: Mapping[str, AppRecord], decision: Preemption) -> VictimCheck:
    """The contents of the check at present; the ask's kind waits for the answer from now on."""
    app = apps[decision.app_id]
    ask = app.asks[decision.key]
    known = {
        (app_id, key): (apps[app_id], one.ask, one.node_id)
        for plan in decision.plans
        for app_id, key in (*plan.on_node, *plan.elsewhere, *plan.spare)
        for one in [apps[app_id].allocations[key]]
    }
    wish = app.wish(ask.kind)
    wish.asked = True
    return VictimCheck(app, ask, ask.forms, wish, decision.plans, known)


def is_current(look: Look, check: VictimCheck) -> bool:
    """True if the ask's kind still waits for the answer; its wait is over in that case."""
    app = look.apps.get(check.app.app_id)
    if app is None or app is not check.app:
        return False
    if not any(wish is check.wish for wish in app.wishes.values()):
        return False
    check.wish.asked = False
    return True


def starts(check: VictimCheck) -> dict[str, int]:
    """An answer that accepts all proposed victims."""
    return {plan.node_id: len(plan.on_node) - 1 for plan in check.plans}


def accepted(check: VictimCheck, needed: Mapping[str, int]) -> list[Preemption]:
    """The accepted plans, the best first; a position that was not offered is a refusal."""
    found = []
    for plan in check.plans:
        offered = [*plan.on_node, *plan.spare]
        start, upto = len(plan.on_node) - 1, needed.get(plan.node_id)
        if upto is not None and start <= upto < max(len(offered), start + 1):
            names = [*offered[: upto + 1], *plan.elsewhere]
            terms = [check.known[name][1].terms for name in names]
            kind = 2 * any(not one.itself for one in terms) + any(one.originator for one in terms)
            kind = plan.kind if upto == start else kind
            prices = [plan.price, *plan.spare_prices[: upto - start]]
            price = (max(priority for priority, _ in prices), sum(lost for _, lost in prices))
            found.append((kind, price, len(names), plan.node_id, names))
    app_id, key = check.app.app_id, check.ask.key
    return [Preemption(app_id, key, node_id, names) for *_, node_id, names in sorted(found)]


def first_standing(look: Look, check: VictimCheck, found: list[Preemption]) -> Preemption | None:
    """The first of the accepted plans that can still be carried out."""
    if not _may_have_victims(look, check.app, check.ask):
        return None
    for one in found:
        same = all(_is_same(look, check, name) for name in one.victims)
        if same and stands(look, check.app, check.ask, one.node_id, one.victims):
            return one
    return None


def others_were_faster(look: Look, check: VictimCheck, found: list[Preemption]) -> bool:
    """True if a node of the plans is reserved for another ask, and nothing else blocks this ask."""
    tried = search_for(look, check.app, check.ask)
    names = {one.node_id for one in found} & look.usage.reserved
    there = [node for node in tried.cluster.nodes if node.name in names]
    taken = any(not tried.yields(one) for node in there for one in tried.holders(node))
    return taken and _may_have_victims(look, check.app, check.ask)


def still_waits(check: VictimCheck) -> bool:
    """True if the ask is still pending, and has not changed its form since the check."""
    return check.app.asks.get(check.ask.key) is check.ask and check.ask.forms == check.forms


def _may_have_victims(look: Look, app: AppRecord, ask: AskRecord) -> bool:
    """True if the ask waits only because of its queues' maxima or the nodes."""
    starts_or_runs = app.state == "Running" or (app.state == "Accepted" and may_start(look, app))
    waits = app.backs_off_until > look.now or is_replaceable(app, ask)
    return starts_or_runs and not waits and within_limits(look, app, ask) and not is_behind(look, app, ask)


def _is_same(look: Look, check: VictimCheck, name: Name) -> bool:
    """True if the victim is unchanged since the check, on the same node."""
    app, ask, node_id = check.known[name]
    one = app.allocations.get(name[1])
    known = look.apps.get(name[0]) is app and one is not None
    return known and one is not None and one.ask is ask and one.node_id == node_id


RETRY_SECONDS = 5.0


@dataclass(eq=False)
class PredicateCheck:
    """A check of nodes: their versions at the time of the check, and the asks that wait for the answer.

    `named` are application and key of the ask in the check. `sent`: it was written to the RM. `victims` are
    stopped by plans that wait for the answer. `of_gang` is the application whose gang, or planned start,
    waits for it; with `plans` no start of the gang is planned so far, and with `waits` its leaf is closed
    before the start.
    """

    named: tuple[str, str]
    ask_class: AskClass
    allocate: bool
    nodes: dict[NodeRecord, tuple[int, int]]
    sent: bool = False
    assumed: list[tuple[str, str]] = field(default_factory=list)
    reservations: list[ReservationRecord] = field(default_factory=list)
    victims: "VictimCheck | None" = None
    of_gang: AppRecord | None = None
    plans: bool = False
    waits: bool = False

    @property
    def is_orphaned(self) -> bool:
        """True if the ask of an allocating check no longer waits for it, perhaps because it was refused."""
        return self.allocate and self.named not in self.assumed

    def is_about(self, node: NodeRecord) -> bool:
        """True if it is about the node in its present state."""
        return node in self.nodes and self.nodes[node][0] == node.told

    def counts(self, node: NodeRecord, assumed: int, *, accepted: bool) -> bool:
        """True if the answer applies to a node on which `assumed` asks wait for it.

        A refusal needs only an unchanged node. Acceptance of the first node covers all its assumed asks,
        because the RM took them into account in later checks; on other nodes the ask must be the only one.
        """
        if not accepted:
            return self.is_about(node)
        first = next(iter(self.nodes))
        return self.nodes[node][1] == node.narrowed and (node is first or assumed == 1)


class PredicateChecks:
    """The open checks of a partition, and the unanswered ones.

    `said` are the checks that the core requested during the present command. `latest` has the last check of
    each class and node. `sent` has the checks that were written together, under the last of them.
    """

    def __init__(self) -> None:
        """Start without checks."""
        self.open: dict[int, PredicateCheck] = {}
        self.silent: dict[int, PredicateCheck] = {}
        self.sent: dict[int, list[int]] = {}
        self.said: list[AskedCheck] = []
        self.latest: dict[tuple[AskClass, bool, NodeRecord], PredicateCheck] = {}

    def about(self, ask: AskRecord, node: NodeRecord, *, allocate: bool) -> PredicateCheck | None:
        """The open check about the node as it is now."""
        check = self.latest.get((ask.ask_class, allocate, node))
        return check if check is not None and check.is_about(node) else None

    def close(self, number: int) -> PredicateCheck | None:
        """Remove the check, which is answered or never will be."""
        check = self.open.pop(number, None)
        if check is not None:
            for node in check.nodes:
                name = (check.ask_class, check.allocate, node)
                if self.latest.get(name) is check:
                    del self.latest[name]
        return check

    def is_silent_about(self, ask_class: AskClass) -> bool:
        """True if nodes are skipped for the class because the RM did not answer."""
        return any(c.allocate and c.ask_class == ask_class for c in self.silent.values())

    def next(
        self, app_id: str, ask: AskRecord, nodes: dict[str, NodeRecord], *, allocate: bool
    ) -> PredicateCheck:
        """Open the next check that the core sent, which has to be for this ask."""
        assert self.said, f"the core should have asked for {app_id} {ask.key}"
        said = self.said.pop(0)
        got = (said.app_id, said.key, said.allocate)
        assert got == (app_id, ask.key, allocate), f"core asks for {got}, not {app_id} {ask.key}"
        unknown = [node_id for node_id in said.nodes if node_id not in nodes]
        assert not unknown, f"core asks about {unknown}, which are no nodes"
        assert len({*said.nodes}) == len(said.nodes), f"core asks twice: {said.nodes}"
        records = [nodes[node_id] for node_id in said.nodes]
        versions = {record: (record.told, record.narrowed) for record in records}
        named = (app_id, ask.key)
        check = self.open[said.check] = PredicateCheck(named, ask.ask_class, allocate, versions)
        for record in records:
            self.latest[ask.ask_class, allocate, record] = check
        return check

    def let_go(self, app_id: str, key: str) -> None:
        """Remove an assumed ask from the check for which it waited."""
        for check in self.open.values():
            if (app_id, key) in check.assumed:
                check.assumed.remove((app_id, key))


def check_sense(look: Look, checks: PredicateChecks, ask: AskRecord, said: AskedCheck) -> None:
    """Check that nodes after the first can host the ask, are in node order, and have no result yet."""
    further = [look.nodes[node_id] for node_id in said.nodes[1:] if node_id in look.nodes]
    for node in further:
        assert takes(look, node, ask), f"core asks about {node}, where {ask} cannot go"
        known = (ask.ask_class, True) in node.results
        known = known or checks.about(ask, node, allocate=True) is not None
        assert not known, f"core asks about {node} again for {ask}"
    keys = [node_key(look, node) for node in further]
    assert keys == sorted(keys), f"core asks out of order: {said.nodes}"


def put_back(app: AppRecord, key: str) -> None:
    """Return an assumed or matched ask to the pending asks, in its old place."""
    here = app.pairs if key in app.pairs else app.allocations
    app.add(here[key].ask)
    del here[key]


def remember(check: PredicateCheck, refused: dict[str, str]) -> None:
    """Store the results on nodes that have not changed since the check."""
    for node in check.nodes:
        if check.is_about(node):
            node.results[check.ask_class, check.allocate] = refused.get(node.node_id, "")


def forget_silence(check: PredicateCheck) -> None:
    """Drop the results of unanswered checks, so that they no longer exclude the nodes."""
    name = (check.ask_class, check.allocate)
    for node in check.nodes:
        if node.results.get(name) == NO_ANSWER:
            del node.results[name]
