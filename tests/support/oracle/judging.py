"""Preemption checks: the RM says which victims have to go for its ask (spec § 9.4.5)."""

from collections.abc import Mapping
from dataclasses import dataclass

from licorne_core.messages.effects import AskedPreemption
from support.oracle.books import AppRecord, AskRecord
from support.oracle.checks import may_start, within_limits
from support.oracle.gangs import is_replaceable
from support.oracle.order import Look
from support.oracle.terms import WishRecord
from support.oracle.victims import Name, Plan, Preemption, search_for, stands


@dataclass(eq=False)
class VictimCheck:
    """The question who has to go by one of the plans. `sent`: it was written to the RM.

    `forms` is what the ask was like; `known` are the victims, with their nodes, as they were.
    """

    app: AppRecord
    ask: AskRecord
    forms: int
    wish: WishRecord
    plans: tuple[Plan, ...]
    known: dict[Name, tuple[AppRecord, AskRecord, str]]
    sent: bool = False


class Judging:
    """The open preemption checks of a partition; `said` are new ones of the core's."""

    def __init__(self) -> None:
        """None."""
        self.open: dict[int, VictimCheck] = {}
        self.said: list[AskedPreemption] = []


def ask_who_goes(apps: Mapping[str, AppRecord], judging: Judging, decision: Preemption) -> None:
    """The RM is asked, by the check that the core asked for."""
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
    """What the RM is asked about, as it is now; the ask's kind waits for the answer."""
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
    """Whether the ask's kind still waits for the answer; then it waits no more."""
    app = look.apps.get(check.app.app_id)
    if app is None or app is not check.app:
        return False
    if not any(wish is check.wish for wish in app.wishes.values()):
        return False
    check.wish.asked = False
    return True


def starts(check: VictimCheck) -> dict[str, int]:
    """An answer that agrees to everything that was proposed."""
    return {plan.node_id: len(plan.on_node) - 1 for plan in check.plans}


def accepted(check: VictimCheck, needed: Mapping[str, int]) -> list[Preemption]:
    """What the RM agrees to, the best first; a position that was not offered is a refusal."""
    found = []
    for plan in check.plans:
        offered = [*plan.on_node, *plan.spare]
        start, upto = len(plan.on_node) - 1, needed.get(plan.node_id)
        if upto is not None and start <= upto < max(len(offered), start + 1):
            names = [*offered[: upto + 1], *plan.elsewhere]
            terms = [check.known[name][1].terms for name in names]
            kind = 2 * any(not one.itself for one in terms) + any(one.originator for one in terms)
            found.append((kind, len(names), plan.node_id, names))
    app_id, key = check.app.app_id, check.ask.key
    return [Preemption(app_id, key, node_id, names) for _, _, node_id, names in sorted(found)]


def first_standing(look: Look, check: VictimCheck, found: list[Preemption]) -> Preemption | None:
    """The first of them that may still be carried out."""
    if not _may_have_victims(look, check.app, check.ask):
        return None
    for one in found:
        same = all(_is_same(look, check, name) for name in one.victims)
        if same and stands(look, check.app, check.ask, one.node_id, one.victims):
            return one
    return None


def others_were_faster(look: Look, check: VictimCheck, found: list[Preemption]) -> bool:
    """Whether one of the nodes is kept for another ask, and nothing stops this one beside."""
    tried = search_for(look, check.app, check.ask)
    names = {one.node_id for one in found} & look.usage.reserved
    taken = any(node.name in names and not tried.is_free(node) for node in tried.cluster.nodes)
    return taken and _may_have_victims(look, check.app, check.ask)


def still_waits(check: VictimCheck) -> bool:
    """Whether the ask waits as it did when the RM was asked."""
    return check.app.asks.get(check.ask.key) is check.ask and check.ask.forms == check.forms


def _may_have_victims(look: Look, app: AppRecord, ask: AskRecord) -> bool:
    """Whether nothing but a queue's maximum or the nodes stops the ask."""
    starts_or_runs = app.state == "Running" or (app.state == "Accepted" and may_start(look, app))
    waits = app.backs_off_until > look.now or is_replaceable(app, ask)
    return starts_or_runs and not waits and within_limits(look, app, ask)


def _is_same(look: Look, check: VictimCheck, name: Name) -> bool:
    """Whether the victim is what it was when the RM was asked, where it was."""
    app, ask, node_id = check.known[name]
    one = app.allocations.get(name[1])
    known = look.apps.get(name[0]) is app and one is not None
    return known and one is not None and one.ask is ask and one.node_id == node_id
