"""One partition of the oracle: queues, nodes, applications, deadlines (spec §§ 2.7, 3-5, 7).

Deadlines are in one list that is searched each time.
"""

from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

from licorne_core.messages.commands import NewApplication, PredicatePolicy
from support.oracle.books import AllocationRecord, Amounts, AppRecord, AskRecord, GangRecord, NodeRecord
from support.oracle.budgets import Budgets
from support.oracle.config import creates_queues, node_order, preempts, queue_records, tagged_amounts
from support.oracle.domains import levels_of
from support.oracle.elastic import elastic_of
from support.oracle.gangs import fits_below, seconds_left
from support.oracle.memory import Memory
from support.oracle.order import ClaimRecord
from support.oracle.pauses import Pauses
from support.oracle.predicates import Judging, PredicateCheck, PredicateChecks, VictimCheck, put_back
from support.oracle.profiles import expected_runtime
from support.oracle.queues import QueueRecord, lineage
from support.oracle.terms import CordonRecord, PreemptionRecord
from support.oracle.topology import PlaceRecord, may_come, terms_of
from support.oracle.usage import Usage, group_of, is_limited

Name = tuple[str, str]


class Timers:
    """At most one deadline for each name, in Unix seconds."""

    def __init__(self) -> None:
        """Start without deadlines."""
        self._due: dict[Name, tuple[float, int]] = {}
        self._made = 0

    def __contains__(self, name: Name) -> bool:
        """True if the name has a deadline."""
        return name in self._due

    def set(self, name: Name, at: float) -> None:
        """Set the deadline of the name."""
        self._made += 1
        self._due[name] = (at, self._made)

    def cancel(self, name: Name) -> None:
        """Remove its deadline."""
        self._due.pop(name, None)

    def take(self, now: float) -> Name | None:
        """Remove and return the first name that is due, of equal ones the first set; None if none is due."""
        first = min(self._due, key=lambda name: self._due[name], default=None)
        if first is None or self._due[first][0] > now:
            return None
        del self._due[first]
        return first


def look_again(partition: "PartitionOracle", node: NodeRecord, now: float) -> None:
    """Plan a check of a drained node, where allocations may have to be stopped."""
    if node.cordon is not None and node.cordon.drains and node.cordon.deadline is not None:
        partition.timers.set(("drain", node.node_id), now)


CLEANING_SECONDS = 10.0
CLEAN = ("clean", "")


class Made(NamedTuple):
    """An allocation sent to the RM: application, key and node."""

    app_id: str
    key: str
    node_id: str


class Released(NamedTuple):
    """A message to the RM that an allocation has ended or has to end."""

    app_id: str
    key: str
    termination: str
    message: str


class PartitionOracle:
    """The records of one partition.

    `reserving`: nodes may be reserved. `policy`: how the RM is asked about nodes, None for no questions.
    `most_assumed`: the maximum of asks that wait for answers, and the one while the RM is `unheard`, that is,
    was silent where silence counts as refusal. `made` and `released` are the messages to the RM during the
    present command. `packs`: groupings and types by which the core's `auto` packs, None while it spreads.
    `may_be_whole`: the groupings that gangs have wanted since the core last had none.
    """

    def __init__(
        self,
        rm_id: str,
        bare: str,
        config: dict[str, Any],
        budgets: Budgets,
        *,
        as_fifo: bool,
        reserving: bool,
        policy: PredicatePolicy | None,
        most_assumed: tuple[int, int],
    ) -> None:
        """An empty partition with the `bare` name."""
        self.rm_id = rm_id
        self.name = f"[{rm_id}]{bare}"
        self.budgets = budgets
        self.reserving = reserving
        self.most_assumed = most_assumed
        self.policy = policy
        self.unheard = False
        self.review_due: float | None = None
        self.claims: list[ClaimRecord] = []
        self.reservations = self.notices = 0
        self.was_full = False
        self.bookings = 0
        self.made: list[Made] = []
        self.released: list[Released] = []
        self.checks = PredicateChecks()
        self.judging = Judging()
        self.timers = Timers()
        self.queues = queue_records(config)
        self.runs: dict[object, list[float]] = {}
        self.last_runs: dict[str, dict[str, float]] = {}
        self.pauses = Pauses()
        self.told_starts = 0
        self.apps: dict[str, AppRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.places: list[PlaceRecord] = []
        self.cordons: dict[str, CordonRecord] = {}
        self.creates_queues = creates_queues(config)
        self.node_order = node_order(config)
        self.packs: tuple[tuple[tuple[str, ...], ...], tuple[str, ...]] | None = None
        self.may_be_whole: set[tuple[str, ...]] = set()
        self.preemption = PreemptionRecord(
            preempts(config), policy is not None, policy is not None and policy.judges_victims
        )
        self.as_fifo = as_fifo
        self.memory = Memory()

    def reload(self, config: dict[str, Any], now: float) -> None:
        """Apply another configuration; queues missing in it drain (spec § 2.7)."""
        new = queue_records(config)
        # Root keeps the maximum of applications that it was created with (spec § 2.7.3).
        new["root"].max_apps = self.queues["root"].max_apps
        for path, queue in self.queues.items():
            if queue.managed and path not in new:
                queue.draining = True
        self.queues.update(new)
        self.creates_queues = creates_queues(config)
        self.node_order = node_order(config)
        self.preemption.enabled = preempts(config)
        self.preemption.kept.clear()
        for queue in self.queues.values():
            if queue.is_leaf and not queue.managed:
                self._follow_template(queue)
        for app in self.apps.values():
            app.wishes, app.in_vain = {}, {}
            if not is_limited(self.queues, app.queue, app.group):
                app.group = group_of(self.queues, app.queue, app.groups)
        for app, ask in self.reserved_asks():
            assert ask.reservation is not None, f"something is kept for {ask}"
            properties = self.queues[app.queue].properties
            ask.reservation.exclusive = properties.get("reservation.exclusive") == "true"
        for queue in self.queues.values():
            if self._is_empty(queue):
                self.clean_later(queue.path, now)
        self.memory.follow(self.queues, now)

    def reserved_asks(self) -> list[tuple[AppRecord, AskRecord]]:
        """All asks with a reservation or promise, including those that wait for an answer."""
        return [
            (app, ask)
            for app in self.apps.values()
            for ask in (*app.asks.values(), *(app.waiting_ask(key) for key in app.assumed_keys()))
            if ask.reservation is not None
        ]

    # Applications

    def add_app(self, new: NewApplication, now: float) -> None:
        """Place the application, unless its id is in use or no queue accepts it."""
        if new.app_id in self.apps:
            return
        before = list(self.queues)
        path = self._place(new.queue_name)
        if path is None:
            return
        user, tags = new.user.user, dict(new.tags)
        terms, elastic = terms_of(tags), elastic_of(tags)
        levels = levels_of(self.queues["root"].properties)
        if not may_come(terms, elastic, dict(new.placeholder_ask), levels):
            self.queues = {known: self.queues[known] for known in before}
            return
        leaf = self.queues[path]
        brought = leaf.brought
        self._follow_tags(leaf, tags)
        wanted = dict(new.placeholder_ask)
        if any(wanted.values()) and not self._may_come(path, wanted):
            # The leaf is unchanged, and created queues are removed again.
            if not leaf.managed:
                leaf.brought = brought
                self._follow_template(leaf)
            self.queues = {known: self.queues[known] for known in before}
            return
        gang = GangRecord(
            wanted,
            new.gang_scheduling_style.lower() == "hard",
            seconds_left(new.execution_timeout, tags, now),
        )
        groups = tuple(new.user.groups) or (user,)
        app = AppRecord(new.app_id, path, now, user, groups, tags, gang)
        app.group = group_of(self.queues, path, app.groups)
        app.terms, app.elastic = terms, elastic
        self.apps[new.app_id] = app

    def _may_come(self, path: str, wanted: Amounts) -> bool:
        """True if a gang may run in the leaf, and can be complete there (spec § 6.1)."""
        limits = [self.queues[above].max for above in lineage(path)]
        return self.queues[path].app_order != "fair" and fits_below(limits, wanted)

    def _place(self, name: str) -> str | None:
        """The leaf that the `provided` rule finds or creates for a full path; None if it has none."""
        queue = self.queues.get(name)
        if queue is not None:
            return name if queue.is_leaf and not queue.draining else None
        above = next(path for path in lineage(name) if path in self.queues)
        nearest = self.queues[above]
        if not self.creates_queues or nearest.is_leaf or nearest.draining:
            return None
        for path in reversed(lineage(name)[: lineage(name).index(above)]):
            self.queues[path] = QueueRecord(path, is_leaf=path == name, managed=False)
        self._follow_template(self.queues[name])
        return name

    def _follow_template(self, leaf: QueueRecord) -> None:
        """Apply the nearest template above a dynamic leaf, and the sizes in tags."""
        above = (self.queues[path].template for path in lineage(leaf.path)[1:])
        nothing = QueueRecord(leaf.path, is_leaf=True)
        template = next((found for found in above if found), nothing)
        brought = leaf.brought or nothing
        leaf.properties = dict(template.properties)
        leaf.guaranteed = dict(brought.guaranteed or template.guaranteed)
        leaf.max = dict(brought.max or template.max)
        leaf.max_apps = brought.max_apps or template.max_apps

    def _follow_tags(self, leaf: QueueRecord, tags: dict[str, str]) -> None:
        """Apply the sizes in an application's tags to a dynamic leaf from now on (§ 3.13)."""
        if leaf.managed:
            return
        brought = replace(leaf.brought or QueueRecord(leaf.path, is_leaf=True))
        brought.max = tagged_amounts(tags, "namespace.resourcequota") or brought.max
        brought.guaranteed = tagged_amounts(tags, "namespace.resourceguaranteed") or brought.guaranteed
        brought.max_apps = int(tags.get("namespace.resourcemaxapps", "0")) or brought.max_apps
        leaf.brought = brought
        self._follow_template(leaf)

    # Bookings

    def book(
        self,
        app: AppRecord,
        ask: AskRecord,
        node_id: str,
        state: str,
        requested: float,
        started: float,
        end: float | None = None,
    ) -> None:
        """Put an ask on a node; the last booking is the last of its application.

        `end` is its expected end if it ran before; without a known runtime an ask is overdue from its start.
        """
        self.bookings += 1
        app.allocations.pop(ask.key, None)
        runtime = inf if ask.placeholder else expected_runtime(self.runs, app, ask)
        if end is None:
            end = started + runtime if runtime < inf else started
        app.allocations[ask.key] = AllocationRecord(
            ask, node_id, state, self.bookings, requested, started, end
        )

    def put_back(self, app: AppRecord, key: str) -> None:
        """Return an assumed or matched ask to the pending ones; later answers of the RM have no effect."""
        self.checks.let_go(app.app_id, key)
        put_back(app, key)

    def put_back_unfitting(self, node: NodeRecord) -> None:
        """Roll back assumed asks, the latest first, because the RM has used room on the node."""
        for app, key in reversed(self.assumed_on(node)):
            available = Usage(self.queues, self.apps, self.nodes).available[node.node_id]
            if any(available.get(name, 0) < 0 for name in app.waiting_ask(key).size):
                self.put_back(app, key)

    def assumed_on(self, node: NodeRecord) -> list[tuple[AppRecord, str]]:
        """The asks booked on the node that wait for an answer, in the order of booking."""
        apps = self.apps.values()
        found = [
            (one.number, app, key)
            for app in apps
            for key, one in app.allocations.items()
            if one.assumed and one.node_id == node.node_id
        ]
        found += [
            (pair.number, app, key)
            for app in apps
            for key, pair in app.pairs.items()
            if not pair.linked and pair.node_id == node.node_id
        ]
        return [(app, key) for _, app, key in sorted(found, key=lambda one: one[0])]

    @property
    def waiting(self) -> int:
        """The number of asks that wait for an answer."""
        return sum(len(app.assumed_keys()) + len(app.matched_keys()) for app in self.apps.values())

    def must_ask(self, ask: AskRecord, node: NodeRecord, *, allocate: bool) -> bool:
        """True if the RM has to accept the node first.

        If other asks are assumed there, its earlier answers about the node do not count.
        """
        known = (ask.ask_class, allocate) in node.results
        known = known and not (allocate and self.assumed_on(node))
        return self.policy is not None and ask.predicate is not None and not known

    # Messages to the RM

    def tell_made(self, app: AppRecord, key: str) -> None:
        """Send the RM an allocation."""
        self.made.append(Made(app.app_id, key, app.allocations[key].node_id))

    def tell_released(self, app: AppRecord, key: str, termination: str, message: str) -> None:
        """Send the RM that an allocation has ended, or has to end."""
        self.released.append(Released(app.app_id, key, termination, message))

    def note_sent(self, number: int, now: float) -> None:
        """Start the deadlines of the checks up to this number, which were written."""
        waiting: dict[int, PredicateCheck | VictimCheck] = {
            **self.checks.open,
            **self.judging.open,
        }
        together = sorted(n for n, c in waiting.items() if n <= number and not c.sent)
        for check in together:
            waiting[check].sent = True
        if together:
            assert self.policy is not None, "core asks an RM that has no say"
            self.checks.sent[together[-1]] = together
            self.timers.set(("answer", str(together[-1])), now + self.policy.deadline)

    # Empty queues

    def clean_later(self, path: str, now: float) -> None:
        """Plan a check for empty queues, if the leaf or a queue above it may be removed (spec § 4.3)."""
        if CLEAN not in self.timers and any(self.queues[up].removable for up in lineage(path)):
            self.timers.set(CLEAN, now + CLEANING_SECONDS)

    def clean(self) -> None:
        """Remove queues that are empty and dynamic, or draining, from the bottom up."""
        for path in sorted(self.queues, key=lambda path: -path.count(".")):
            if self.queues[path].removable and self._is_empty(self.queues[path]):
                del self.queues[path]

    def _is_empty(self, queue: QueueRecord) -> bool:
        return not any(app.queue == queue.path for app in self.apps.values()) and not any(
            other.parent == queue.path for other in self.queues.values()
        )
