"""Predicate checks: the RM is asked about the nodes for its asks (spec § 8.4).

A pass never waits for an answer. Meanwhile the allocation is *assumed*: booked, so that no other
ask gets the room, and reported to the RM only after it has accepted the node.

The RM judges checks one after the other, and an ask whose first node it accepts counts as placed
for those that follow. So any number of asks may be assumed on one node, each with a check of its
own, and the confirmation of one says nothing against the answers about the others.

The result for a class belongs to the node as the RM knows it. Every change that the RM hears of
voids it. Assumed asks do not: otherwise two classes that are refused on one node would void each
other's results for ever. Silence is no refusal: it keeps asks from a node for a while, and is never
reported as a refusal.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sized
from typing import NamedTuple

from licorne_core.messages.effects import AskedCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import NO_ANSWER, Node
from licorne_core.model.rm_context import RmContext
from licorne_core.scheduling.node_search.candidates import NodeIndex
from licorne_core.scheduling.preempting import Call, OpenCalls, Proposal
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.asks import AskClass, Reservation
from licorne_core.values.ids import NodeId
from licorne_core.values.timers import Due, Timer, Timers

BATCH = 1000
"""Most nodes in a check: the ask's node, and the next ones."""

ALWAYS = 2
"""Asks that a check is for if so many wait, of however little use the last one was."""

TIMES_THE_LAST = 8
"""Bound on the asks of a check: ALWAYS + TIMES_THE_LAST * n; the first check of a class is for all
waiting asks. n is the number of asks of the class that have needed no check of their own since its
last check, as they could share answers about others. Up to so many classes that come in turn have
few checks, and with more of them few nodes are asked about in vain. Nodes for refusals come on top.
"""

MAX_SPARED = 1024
"""Classes of which that is kept; of others a check is for all asks that wait."""

MAX_DOUBLINGS = 10
"""Refusals in a row after which a check names no more nodes than before."""

MAX_ASSUMED = 1024
"""Asks of a partition that may wait for answers at a time; more are not tried meanwhile."""

MAX_ASSUMED_IN_SILENCE = 8
"""Asks that may wait for an RM whose silence counts as refusal, until it answers again."""

SWEEP_RESULTS = 256
"""Number of results on a node at which those of unwanted classes are forgotten."""

MAX_RESULTS = 8192
"""Results that are kept for a node; the oldest gives way, and may be asked for again."""

RETRY_TIME = 5.0
"""Seconds for which a node that got no answer is not asked about again, unless it changes."""


class Assumed(NamedTuple):
    """A request that waits for an answer, and the node that it is to run on."""

    app: Application
    request: Request
    node: Node


class PredicateCheck(Call):
    """A check sent to the RM, and the asks that wait for its answer."""

    __slots__ = (
        "allocate",
        "ask_class",
        "assumed",
        "first",
        "nodes",
        "request",
        "reservations",
    )

    def __init__(self, number: int, request: Request, nodes: Iterable[Node], *, allocate: bool) -> None:
        """Start without waiting asks."""
        super().__init__(number)
        self.request = request
        """The ask that it names."""
        self.ask_class = request.ask.ask_class
        self.allocate = allocate
        """True if it is about an allocation, not a reservation."""
        self.nodes = {node: (node.known_version, node.narrowed_version) for node in nodes}
        """The nodes asked about, each with its versions as the RM knew them."""
        self.first = next(iter(self.nodes))
        """Node that the ask would go to: if the RM accepts it, it counts the ask as placed."""
        self.assumed: dict[Request, Assumed] = {}
        """The requests that are booked on one of the nodes meanwhile."""
        self.reservations: list[Reservation] = []
        """The reservations that end if the RM refuses."""

    @property
    def is_orphaned(self) -> bool:
        """True if the ask that it names waits for it no more, while others may."""
        return self.allocate and self.request not in self.assumed

    def is_about(self, node: Node) -> bool:
        """True if it asks about the node as the RM knows it now."""
        asked = self.nodes.get(node)
        return asked is not None and asked[0] == node.known_version

    def stands(self, node: Node) -> bool:
        """True if an acceptance still counts: the RM has done nothing that may speak against it."""
        return self.nodes[node][1] == node.narrowed_version


class AnswersOwed(Blocker):
    """Blocks asks with a predicate while too many wait for answers of the RM."""

    __slots__ = ("_waiting", "is_silent")

    def __init__(self, waiting: Sized) -> None:
        """Start from the waiting requests."""
        super().__init__()
        self._waiting = waiting
        self.is_silent = False
        """True if the RM let the last deadline pass, and its silence counts as refusal."""

    @property
    def most(self) -> int:
        """Requests that may wait for answers at a time."""
        return MAX_ASSUMED_IN_SILENCE if self.is_silent else MAX_ASSUMED

    def lets_through(self) -> bool:
        """True if another ask may wait."""
        return len(self._waiting) < self.most


class PredicateChecks:
    """The open checks of one partition, and the requests that wait for their answers.

    Always true: every assumed request waits for one open check.
    """

    __slots__ = (
        "_about",
        "_calls",
        "_index",
        "_rm",
        "_spared",
        "_waiting",
        "owed",
    )

    def __init__(self, rm: RmContext, index: NodeIndex, calls: OpenCalls) -> None:
        """Start without checks; `calls` has the open questions of all kinds."""
        self._rm = rm
        self._index = index
        self._calls = calls
        self._about: dict[tuple[AskClass, bool, Node], PredicateCheck] = {}
        self._waiting: dict[Request, PredicateCheck] = {}
        # Of classes that were asked about for several asks: how many asks have needed no check of
        # their own since the last one.
        self._spared: dict[AskClass, int] = {}
        self.owed = AnswersOwed(self._waiting)
        """Blocks asks while too many wait for answers."""

    @property
    def waiting(self) -> int:
        """Requests that wait for answers."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """True if so many requests wait for answers that no more should."""
        return not self.owed.lets_through()

    def is_needed(self, ask_class: AskClass, node: Node, *, allocate: bool = True) -> bool:
        """True if the RM has to be asked before an ask of the class may go to the node.

        While others are assumed there, its earlier answers do not count: it may have accepted one
        of them since.
        """
        if self._rm.predicates is None or ask_class.predicate is None:
            return False
        return (allocate and node.assumed > 0) or (ask_class, allocate) not in node.results

    # Asking

    def ask(self, request: Request, node: Node) -> PredicateCheck:
        """Return the check that decides if the request may go to the node in its present state.

        It names a node for each ask of the group that waits and is likely to go by it, and more
        after refusals. An open check about the node is shared, unless an ask is assumed there: the
        RM has to judge the second when it knows of the first.
        """
        group: AskGroup = request.group
        check = self._open_about(group.ask_class, node, allocate=True)
        if check is not None:
            if node.assumed or check.is_orphaned:
                # Those that come next are asked about as well.
                return self._put(request, [node], allocate=True)
            self.spared(group.ask_class)
            return check
        spare = (1 << min(group.refusals, MAX_DOUBLINGS)) - 1
        count = min(BATCH, self._likely(group) + spare) - 1
        ahead = self._ahead(group.ask_class, node, count) if count else ()
        return self._put(request, [node, *ahead], allocate=True)

    def spared(self, ask_class: AskClass) -> None:
        """Note that an ask of the class shares a check made for another one."""
        spared = self._spared.get(ask_class)
        if spared is not None:
            self._spared[ask_class] = spared + 1

    def ask_to_reserve(self, request: Request, node: Node) -> PredicateCheck:
        """Return the check that decides if the node may be reserved for the ask."""
        check = self._open_about(request.ask.ask_class, node, allocate=False)
        return check or self._put(request, [node], allocate=False)

    def ask_to_preempt(self, proposal: Proposal) -> None:
        """Ask about the nodes of a proposal for its ask, with any victims."""
        check = self._put(proposal.request, proposal.unknown, allocate=False)
        check.proposal = proposal

    def ask_again(self, assumed: Assumed) -> None:
        """Move an assumed ask to a new check, as its node has changed."""
        allocate = self._waiting[assumed.request].allocate
        self.leave(assumed.request)
        self.wait(self._put(assumed.request, [assumed.node], allocate=allocate), assumed)

    def _open_about(self, ask_class: AskClass, node: Node, *, allocate: bool) -> PredicateCheck | None:
        """The open check about the node as it is now."""
        check = self._about.get((ask_class, allocate, node))
        return check if check is not None and check.is_about(node) else None

    def _put(self, request: Request, nodes: Iterable[Node], *, allocate: bool) -> PredicateCheck:
        number, ask = self._calls.next_number(), request.ask
        check = PredicateCheck(number, request, nodes, allocate=allocate)
        for node in check.nodes:
            self._about[ask.ask_class, allocate, node] = check
        names = [node.node_id for node in check.nodes]
        self._calls.open(check, AskedCheck(number, ask.app_id, ask.key, allocate, names))
        return check

    def _likely(self, group: AskGroup) -> int:
        """Number of waiting asks that a check covers: see TIMES_THE_LAST.

        Where asks of many classes come in turn, each takes nodes that the others have asked about,
        and what is answered about them is void before it is of use.
        """
        waiting, spared = group.waiting, self._spared
        if waiting <= ALWAYS:
            return waiting
        last = spared.get(group.ask_class)
        spared[group.ask_class] = 0
        if len(spared) > MAX_SPARED:
            del spared[next(iter(spared))]
        return waiting if last is None else min(waiting, ALWAYS + TIMES_THE_LAST * last)

    def _ahead(self, ask_class: AskClass, candidate: Node, count: int) -> list[Node]:
        """The nodes that come next for the class, as far as nothing is known of them yet."""
        found = self._unknown_ahead(ask_class, candidate, count + 1)
        if len(found) < count:
            # As many again may have been refused just now.
            found = self._unknown_ahead(ask_class, candidate, 2 * count + 1)
        return found[:count]

    def _unknown_ahead(self, ask_class: AskClass, candidate: Node, count: int) -> list[Node]:
        """Those of the next `count` nodes without results."""
        return [
            node
            for node in self._index.ahead(ask_class, count)
            if node is not candidate
            and (ask_class, True) not in node.results
            and self._open_about(ask_class, node, allocate=True) is None
        ]

    # Who waits

    def wait(self, check: PredicateCheck, assumed: Assumed) -> None:
        """A request waits for the answer, booked on its node."""
        check.assumed[assumed.request] = assumed
        self._waiting[assumed.request] = check
        # Where a placeholder makes way nothing is booked beside it.
        assumed.node.assumed += check.allocate

    def leave(self, request: Request) -> None:
        """A request waits no more."""
        check = self._waiting.pop(request)
        check.assumed.pop(request).node.assumed -= check.allocate

    def is_waiting(self, request: Request) -> bool:
        """True if the request waits for an answer that has a deadline, once it was written."""
        check = self._waiting.get(request)
        return check is not None and self._calls.is_awaited(check)

    def closed(self, check: PredicateCheck) -> None:
        """The check is answered, or will not be."""
        for node in check.nodes:
            name = (check.ask_class, check.allocate, node)
            if self._about.get(name) is check:
                del self._about[name]


class PredicateResults:
    """Keeps results on the nodes, and the checks whose silence counts as refusal for a while."""

    __slots__ = ("_index", "_silent", "_timers", "_unanswered")

    def __init__(self, index: NodeIndex, timers: Timers[Timer]) -> None:
        """Start empty."""
        self._index = index
        self._timers = timers
        self._unanswered: dict[int, PredicateCheck] = {}
        self._silent: Counter[AskClass] = Counter()

    def is_silent_about(self, ask_class: AskClass) -> bool:
        """True if nodes are passed over for the class because the RM did not answer."""
        return ask_class in self._silent

    def keep(self, check: PredicateCheck, refused: Mapping[NodeId, str]) -> list[Node]:
        """Keep the results for nodes that are still as they were asked about.

        Returns those that the RM refused before, in another answer, and accepts now.
        """
        name = (check.ask_class, check.allocate)
        taken_back = []
        for node, versions in check.nodes.items():
            if node.known_version == versions[0]:
                results = node.results
                before = results.pop(name, "")
                if len(results) >= SWEEP_RESULTS:
                    self._sweep(results)
                reason = results[name] = refused.get(node.node_id, "")
                if before and not reason:
                    taken_back.append(node)
        return taken_back

    def keep_silence(self, check: PredicateCheck, now: float) -> None:
        """The RM did not answer: its nodes are passed over for a while."""
        self.keep(check, {node.node_id: NO_ANSWER for node in check.nodes})
        self._unanswered[check.number] = check
        if check.allocate:
            self._silent[check.ask_class] += 1
        self._timers.set(Timer(Due.RETRY, check=check.number), now + RETRY_TIME)

    def forget_silence(self, number: int) -> list[Node]:
        """The while is over; the nodes that may be asked about again."""
        check = self._unanswered.pop(number)
        if check.allocate:
            self._silent[check.ask_class] -= 1
            if not self._silent[check.ask_class]:
                del self._silent[check.ask_class]
        name = (check.ask_class, check.allocate)
        again = [node for node in check.nodes if node.results.get(name) is NO_ANSWER]
        for node in again:
            del node.results[name]
        return again

    def _sweep(self, results: dict[tuple[AskClass, bool], str]) -> None:
        """Make room for another result, at the cost of a few for each that was kept.

        Results of classes without pending asks go first. A result that stops a pending ask is kept,
        or the RM would be asked again for ever (spec § 8.4).
        """
        count = len(results)
        # At 256, 512, 1024 and so on: not all are gone through for every result.
        if count & (count - 1) == 0:
            for known in [known for known in results if not self._index.is_wanted(known[0])]:
                del results[known]
        if len(results) >= MAX_RESULTS:
            del results[next(iter(results))]
