"""One pass in the words of the specification, §§ 8.2-8.7.

It adds up usage and sorts queues, applications, asks and nodes from scratch. Asks with a reservation are
tried first, then those that replace placeholders. Then the first ask is chosen that passes all checks and has
a node, or is old enough to have one reserved.
"""

from dataclasses import replace
from typing import NamedTuple

from support.oracle.backfill import (
    MOST,
    Hold,
    Lapse,
    Name,
    ShadowRecord,
    StartQuestion,
    Unplanned,
    ask_first,
    holders,
    is_closed,
    is_full,
    is_open_at,
    mode,
    plan,
    runtime_for_order,
    start_for,
)
from support.oracle.books import AppRecord, AskRecord, Kind
from support.oracle.checks import (
    exceeds_cluster_only,
    fits,
    is_behind,
    is_further,
    may_be_asked_about,
    may_start,
    node_for,
    refused,
    stops_for_good,
    takes,
    within_limits,
    within_maxima,
    within_user_limits,
)
from support.oracle.clearing import victims_on_required_node
from support.oracle.gangs import is_replaceable
from support.oracle.held import behind, exceeds, is_kept, may_be_earlier
from support.oracle.maxima import binding, is_full_behind
from support.oracle.order import Look, apps_in_order, apps_of_leaf
from support.oracle.pauses import Pauses
from support.oracle.replacing import Replacement, replace_one
from support.oracle.reserving import (
    GiveUp,
    claim_to,
    claims_on,
    first_in_order,
    is_due,
    is_large,
    node_to_reserve,
    review,
)
from support.oracle.terms import KeptRecord, Likeness, VainRecord, WishRecord
from support.oracle.together import with_equals
from support.oracle.topology import (
    GangQuestion,
    MemberDecision,
    Together,
    as_one,
    first_place,
    is_member,
    is_whole,
    lacks_asks,
    node_for_member,
    place_whole,
)
from support.oracle.victims import Plan, Preemption, find_plans

MOST_SEARCHES = 10
MOST_PLANS = 10
MOST_TOGETHER = 4
SEARCH_INTERVAL = 15.0
OVERDUE = 2.0


class Decision(NamedTuple):
    """An ask and its node, or an ask and the node to reserve for it."""

    app_id: str
    key: str
    node_id: str
    reserves: bool = False
    provisional: bool = False


class Search(NamedTuple):
    """A search for victims for an ask of this kind.

    `kept`: the likeness, if the search was in vain because nodes are reserved for others.
    """

    app_id: str
    leaf: str
    kind: Kind
    in_vain: bool
    kept: Likeness | None
    priority: int


class Waits(NamedTuple):
    """A search for victims that was skipped, because asks of that likeness wait for reserved nodes."""

    app_id: str
    kind: Kind
    likeness: Likeness
    until: float


Gathering = Together | GangQuestion | MemberDecision


class Outcome(NamedTuple):
    """The result of a pass: a decision, and the applications that back off, in order of effect.

    `attempted` are the asks tried within their user's quota, by application. `nowhere` has for each tried
    kind whether it has no node. `searches` are those for victims, `waits` those skipped until a node is
    released, `postponed` the applications whose leaves had too many searches in this turn. `unplanned` are
    the kinds without a start, or with a search for one, and `pauses` those at each back-off or end of the
    pass. `looked` has the asks for which an earlier start was searched.
    """

    decision: Decision | Replacement | Preemption | GiveUp | Hold | Lapse | StartQuestion | Gathering | None
    backing_off: list[str]
    attempted: dict[str, list[AskRecord]]
    nowhere: dict[str, dict[Kind, bool]]
    searches: list[Search]
    waits: list[Waits]
    postponed: list[str]
    unplanned: list[Unplanned]
    looked: list[Name]
    pauses: list[Pauses]


def decide(look: Look) -> Outcome:
    """The result of one pass over all queues, without any change."""
    if look.review_due is not None and look.now >= look.review_due + OVERDUE and look.nodes:
        return Outcome(review(look, None), [], {}, {}, [], [], [], [], [], [look.pauses])
    looked: list[Name] = []
    decision = _planned_pass(look, looked) or _reserved_pass(look) or replace_one(look)
    outcome = Outcome(decision, [], {}, {}, [], [], [], [], looked, [look.pauses])
    if decision is not None:
        return outcome
    for app in apps_in_order(look, runtime=runtime_for_order(look)):
        if app.backs_off_until > look.now or (app.state == "Accepted" and not may_start(look, app)):
            continue
        found, backs_off = _decide_for(look, app, outcome)
        if backs_off:
            outcome.backing_off.append(app.app_id)
        elif found is not None:
            return outcome._replace(decision=found)
    postponed = {*outcome.postponed} - {*outcome.backing_off}
    if look.review_due is not None and look.nodes and not postponed:
        return outcome._replace(decision=review(look, outcome.backing_off))
    return outcome


def _planned_pass(look: Look, looked: list[Name]) -> Decision | Hold | Lapse | StartQuestion | None:
    """The first ask that fits at its planned start, or whose start is planned again.

    `looked` gets the asks for which an earlier start was searched.
    """
    for app, ask, shadow in holders(look.apps) if look.nodes else []:
        _follow_hours(look, app, ask, shadow)
        comes = app in apps_of_leaf(look, look.queues[app.queue], newcomers=False)
        comes = comes and app.backs_off_until <= look.now and not is_replaceable(app, ask)
        comes = comes and (app.state != "Accepted" or may_start(look, app))
        comes = comes and not stops_for_good(look, app, ask)
        within = not is_closed(look, app) and within_user_limits(look, app, ask)
        within = within and within_maxima(look, app, ask) and not behind(look, app, ask, ask)
        if not shadow.stale and exceeds(look, app, ask):
            shadow.stale = shadow.overdue = True
        node = look.nodes.get(shadow.node_id)
        asked = may_be_asked_about(look, ask)
        if comes and within and asked and node is not None and takes(look, node, ask):
            return Decision(app.app_id, ask.key, node.node_id)
        may_plan = comes and asked
        if may_plan and not is_open_at(look, app, shadow):
            shadow.stale, shadow.overdue = True, False
        if not shadow.stale and not (may_plan and may_be_earlier(look, shadow)):
            continue
        if may_plan and (look.is_asked(app) or (shadow.stale and is_kept(look, shadow))):
            continue
        found = plan(look, app, ask) if may_plan else None
        earlier = found is not None and (shadow.stale or found.start < shadow.start)
        question = ask_first(look, app, ask, found) if found is not None and earlier else None
        if question is None and found is not None and found.waits and shadow.overdue:
            shadow.overdue = False
            found = plan(look, app, ask)
            question = None if found is None else ask_first(look, app, ask, found)
        if question is not None:
            return question
        if found is not None and found.waits and not shadow.waits and is_full(look, waits=True):
            found = None
        if shadow.stale and found is None:
            return Lapse(app.app_id, ask.key)
        looked.append((app.app_id, ask.key))
        if found is not None and earlier:
            return Hold(app.app_id, ask.key, found)
    return None


def _follow_hours(look: Look, app: AppRecord, ask: AskRecord, shadow: ShadowRecord) -> None:
    """Count a start among those that wait while its leaf is closed until then, if there is a place."""
    waits = look.queues[app.queue].closes_at(look.now) <= max(look.now, shadow.start)
    if waits == shadow.waits:
        return
    behind = set() if waits else {*binding(look, app, ask, holders(look.apps))}
    held = [one.behind for _, _, one in holders(look.apps)]
    is_planned = any(sum(key in one for one in held) >= MOST[mode(look.queues)] for key in behind)
    has_place = not (is_full_behind(frozenset(behind), held) if behind else is_full(look, waits=waits))
    if has_place and not is_planned:
        shadow.waits, shadow.behind = waits, behind


def _reserved_pass(look: Look) -> Decision | Preemption | GiveUp | None:
    """The first reserved ask that fits on its node, or on another one if it may be placed there (§ 8.6).

    Otherwise the first one for which its required node can be cleared (§ 9.5).
    """
    for app in apps_in_order(look, newcomers=True):
        for ask in app.asks_in_order():
            if ask.reservation is None:
                continue
            if app.state == "Accepted" and not may_start(look, app):
                continue
            if not within_limits(look, app, ask, reserved=True):
                continue
            decision = _decide_for_reserved(look, app, ask, ask.reservation.node_id)
            if decision is not None:
                return decision
    return None


def _decide_for_reserved(
    look: Look, app: AppRecord, ask: AskRecord, own: str | None
) -> Decision | Preemption | GiveUp | None:
    """The decision for one reserved ask: its node is cleared in a full cluster, but not for a full queue."""
    if within_maxima(look, app, ask, reserved=True):
        if behind(look, app, ask, None, reserved=True) or not may_be_asked_about(look, ask):
            return None
        gives_way = ask.reservation is not None and ask.reservation.gives_way
        claim = claim_to(look, ask) if gives_way and not ask.is_promised else None
        if claim is not None:
            return GiveUp([], [ask], [], [one for one in look.claims if one is not claim], False)
        if own is not None and fits(look, look.nodes[own], ask):
            return _goes_first(look, app, ask, own)
    elif not exceeds_cluster_only(look, app, ask, reserved=True) or ask.required_node is None:
        return None
    if ask.required_node is not None:
        return None if ask.triggered else victims_on_required_node(look, app, ask)
    elsewhere = node_for(look, ask)
    return None if elsewhere is None else _goes_first(look, app, ask, elsewhere)


def _goes_first(look: Look, app: AppRecord, ask: AskRecord, node_id: str) -> Decision:
    """A claim that fits precedes an ask above its queue's guarantee."""
    first = (app, ask)
    if not (ask.required_node or ask.is_promised or is_due(look, app, ask)):
        first = min(
            claims_on(look, ask, look.nodes[node_id]),
            key=lambda claim: (claim[1].place, claim[0].app_id),
            default=first,
        )
    is_open = look.nodes[node_id].schedulable
    if first[1] is ask and ask.reservation is not None and ask.reservation.provisional and is_open:
        first = first_in_order(look, ask, look.nodes[node_id]) or first
    return Decision(first[0].app_id, first[1].key, node_id)


Chosen = Decision | Preemption | Hold | StartQuestion | Gathering | None


def _decide_for(look: Look, app: AppRecord, outcome: Outcome) -> tuple[Chosen, bool]:
    """The application's first ask with a node, and whether the application backs off instead (§ 8.3).

    Earlier asks are all tried, even beyond the number after which the application backs off.
    """
    threshold = look.queues[app.queue].backoff
    outcome.attempted.setdefault(app.app_id, [])
    outcome.nowhere.setdefault(app.app_id, {})
    without_node = 0
    backs_off = False
    for ask in app.asks_in_order():
        backs_off = backs_off or 0 < threshold <= without_node
        if is_replaceable(app, ask):
            continue
        in_gang = is_whole(look, app, ask) or is_member(look, app, ask)
        chosen, has_none = (_of_gang if in_gang else _alone)(look, app, ask, outcome)
        if chosen is not None:
            return chosen, backs_off
        without_node += has_none
    return None, backs_off


def _alone(look: Look, app: AppRecord, ask: AskRecord, outcome: Outcome) -> tuple[Chosen, bool]:
    """The decision for one ask, or whether only nodes block it."""
    nowhere = outcome.nowhere[app.app_id]
    if stops_for_good(look, app, ask):
        return None, False
    within, asked = within_maxima(look, app, ask), may_be_asked_about(look, ask)
    stopped = is_closed(look, app) or not within_user_limits(look, app, ask)
    if stopped or (within and is_behind(look, app, ask)):
        return start_for(look, app, ask, outcome.unplanned, outcome.pauses, asked=asked)[0], False
    if within and not asked:
        return None, False
    if within or exceeds_cluster_only(look, app, ask):
        nowhere[ask.kind] = not within
    outcome.attempted[app.app_id].append(ask)
    if within:
        node_id = node_for(look, ask)
        if node_id is not None:
            return Decision(app.app_id, ask.key, node_id), False
        nowhere[ask.kind] = True
    found, may_reserve_now = start_for(look, app, ask, outcome.unplanned, outcome.pauses, asked=asked)
    if found is not None:
        return found, False
    if within or exceeds_cluster_only(look, app, ask):
        may_reserve = may_reserve_now and (within or (not ask.required_node and is_large(look, ask)))
        to_reserve = node_to_reserve(look, app, ask) if may_reserve else None
        if to_reserve is not None:
            made = Decision(app.app_id, ask.key, to_reserve, reserves=True, provisional=not within)
            return made, False
    return _victims(look, app, ask, outcome), within


def _of_gang(look: Look, app: AppRecord, ask: AskRecord, outcome: Outcome) -> tuple[Chosen, bool]:
    """Places for a whole gang, or for one member; and whether only nodes block it.

    All asks placed together have to be within all quotas. No node is reserved for them, and nothing
    preempted.
    """
    nowhere = outcome.nowhere[app.app_id]
    whole = is_whole(look, app, ask)
    if whole and lacks_asks(app):
        return None, False
    wanted = as_one(app, ask) if whole else ask
    if not within_limits(look, app, wanted):
        return None, False
    within = within_maxima(look, app, wanted)
    if within and not may_be_asked_about(look, ask):
        return None, False
    outcome.attempted[app.app_id].append(ask)
    if not within:
        if exceeds_cluster_only(look, app, wanted):
            nowhere[ask.kind] = True
        return None, False
    chosen = place_whole(look, app) if whole else _for_member(look, app, ask)
    nowhere[ask.kind] = chosen is None
    return chosen, True


def _for_member(look: Look, app: AppRecord, ask: AskRecord) -> MemberDecision | None:
    """A node in a lost place or in the domain of the gang, or any node if neither is required."""
    place = first_place(look.places, app, ask)
    node_id = node_for_member(look, app, ask, place)
    if node_id is None and not (app.terms.required or app.terms.size):
        node_id = node_for(look, ask)
    return None if node_id is None else MemberDecision(app.app_id, ask.key, node_id, place)


def _victims(look: Look, app: AppRecord, ask: AskRecord, outcome: Outcome) -> Preemption | None:
    """The victims for an ask that is blocked by a queue's maximum or by the nodes (§ 9.2).

    After a search in vain no ask of the kind preempts for a while.
    """
    leaf = look.queues[app.queue]
    age = look.now - ask.created
    may = look.preemption.enabled and ask.terms.others and not ask.triggered
    may = may and ask.required_node is None and age >= leaf.preemption_delay
    may = may and may_be_asked_about(look, ask) and not is_behind(look, app, ask)
    searched = [one for one in outcome.searches if one.leaf == leaf.path]
    wish = app.wishes.get(ask.kind, WishRecord())
    lost = app.in_vain.get(ask.kind, VainRecord())
    paused = wish.pauses(ask.priority, look.now) or look.now < lost.until
    tried = [(one.app_id, one.kind) for one in searched]
    tried += [(one.app_id, one.kind) for one in outcome.waits]
    if not may or paused or (app.app_id, ask.kind) in tried:
        return None
    likeness = _likeness(app, ask)
    waits_for = wish.waits(ask.priority, look.now)
    if waits_for and not _is_over(look, ask, look.preemption.kept[waits_for].since):
        return None
    kept = look.preemption.kept.get(likeness)
    if any(one.kept == likeness for one in outcome.searches):
        kept = KeptRecord(look.preemption.given_up, look.now + SEARCH_INTERVAL)
    if kept is not None and look.now < kept.until and not _is_over(look, ask, kept.since):
        outcome.waits.append(Waits(app.app_id, ask.kind, likeness, kept.until))
        return None
    if look.preemption.searches.get(leaf.path, 0) + len(searched) >= MOST_SEARCHES:
        outcome.postponed.append(app.app_id)
        return None
    in_vain = [name for name, node in look.nodes.items() if (node, node.told) in lost.nodes]
    refused_nodes = [name for name, priority in wish.refused.items() if ask.priority <= priority]
    plans, is_kept = find_plans(look, app, ask, [*refused_nodes, *in_vain])
    asked = look.preemption.asked and ask.predicate is not None
    found = Search(app.app_id, leaf.path, ask.kind, not plans, likeness if is_kept else None, ask.priority)
    outcome.searches.append(found)
    if not plans:
        return None
    best = plans[0] if asked else with_equals(look, app, ask, plans[0], _equals(look, app, ask, outcome))
    decision = Preemption(app.app_id, ask.key, best.node_id, [*best.on_node, *best.elsewhere])
    return _with_question(look, ask, decision, plans[:MOST_PLANS]) if asked else decision


def _equals(look: Look, app: AppRecord, ask: AskRecord, outcome: Outcome) -> int:
    """The number of equal asks of the queue that may preempt now, including this one; at most four."""
    leaf = look.queues[app.queue]
    if ask.predicate is not None or leaf.properties.get("reservation.exclusive") == "true":
        return 1
    count = 1
    tried = [one for one in look.apps.values() if one in apps_of_leaf(look, leaf, newcomers=False)]
    for other in (app, *[one for one in reversed(tried) if one is not app]):
        wish = other.wishes.get(ask.kind, WishRecord())
        waits = wish.waits(ask.priority, look.now)
        pauses = wish.pauses(ask.priority, look.now) or look.now < other.backs_off_until
        pauses = pauses or other.app_id in outcome.backing_off
        pauses = pauses or (waits is not None and not _is_over(look, ask, look.preemption.kept[waits].since))
        stopped = other.state == "Accepted" and (not may_start(look, other) or is_further(look, other))
        like = [one for one in other.asks_in_order() if one.kind == ask.kind]
        stopped = stopped or (bool(like) and is_behind(look, other, like[0]))
        if other is not app and (pauses or stopped):
            continue
        for one in other.asks_in_order():
            equal = one is not ask and one.kind == ask.kind and one.priority == ask.priority
            equal = equal and one.terms.others and not one.triggered and one.reservation is None
            equal = equal and look.now - one.created >= leaf.preemption_delay
            gang = is_replaceable(other, one) or is_whole(look, other, one) or is_member(look, other, one)
            if not equal or gang or count == MOST_TOGETHER:
                continue
            together = replace(one, size={name: value * (count + 1) for name, value in one.size.items()})
            within = within_limits(look, other, one) and within_limits(look, other, together)
            if not within or behind(look, other, together, like[0]):
                break
            count += 1
    return count


def _likeness(app: AppRecord, ask: AskRecord) -> Likeness:
    """The key of asks with the same possible victims."""
    has_own = ask.reservation is not None and ask.reservation.node_id is not None
    own = (app.app_id, ask.key) if has_own or ask.is_promised else None
    return (app.queue, ask.ask_class, ask.priority, own)


def _is_over(look: Look, ask: AskRecord, since: int) -> bool:
    """True if a node for the ask was released after the number `since`."""
    return any(
        node.given_up > since
        and node.schedulable
        and node.node_id not in look.usage.keeping
        and node.holds(ask.size)
        and not refused(node, ask, allocate=False)
        for node in look.nodes.values()
    )


def _with_question(look: Look, ask: AskRecord, found: Preemption, plans: list[Plan]) -> Preemption:
    """The preemption with its question to the RM, about victims or about nodes up to the first accepted."""
    if look.preemption.judged:
        return found._replace(plans=tuple(plans))
    nodes: list[str] = []
    for index, one in enumerate(plans):
        if not look.must_ask(ask, look.nodes[one.node_id], allocate=False):
            plans = plans[: index + 1]
            break
        nodes.append(one.node_id)
    return found._replace(plans=tuple(plans), nodes=tuple(nodes)) if nodes else found
