"""Predicate checks: questions to the RM about nodes for its asks (spec § 8.4).

A pass never waits for an answer. Meanwhile the allocation is *assumed*: booked, so that no other
ask gets the room, and reported to the RM only after it has accepted the node.

The RM decides checks in order. An ask whose first node it accepts counts as placed in the checks that
follow. So any number of asks may be assumed on one node, each with a check of its own, and a
confirmation voids no answer about the others.

The result for a class is valid for the node in the state that the RM has seen. Every change of which the RM
is notified voids the result. An assumed ask does not void it: otherwise two classes that are refused on one
node would void each other's results forever. A missing answer is not a refusal: it keeps asks from a node for
a while, and is never reported as a refusal.
"""

from collections.abc import Iterable

from licorne_core.messages.effects import AskedCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.calls import Call, OpenCalls
from licorne_core.scheduling.node_search.index import NodeIndex
from licorne_core.scheduling.predicates import Assumed, NodeQuestion, Predicates
from licorne_core.scheduling.rules import CheckContext
from licorne_core.standard.predicates.owed import AnswersOwed
from licorne_core.values.asks import AskClass, Reservation

BATCH = 1000
"""Maximum number of nodes in a check: the ask's node, and the next ones in node order."""

ALWAYS = 2
"""Number of waiting asks that every check covers, however few the last check helped."""

TIMES_THE_LAST = 8
"""Factor in the bound on the asks of a check: `ALWAYS + TIMES_THE_LAST * n`.

`n` is the number of asks of the class that needed no check of their own since its last check, as they used
answers about other asks. The first check of a class covers all waiting asks. While no more than this number
of classes alternate, there are few checks; if more alternate, few nodes are asked about in vain. Nodes for
refusals are added to the bound.
"""

MAX_SPARED = 1024
"""Maximum number of classes whose `n` is recorded; checks of other classes cover all waiting asks."""

MAX_DOUBLINGS = 10
"""Number of consecutive refusals after which the number of nodes of a check is no longer doubled."""


class PredicateCheck(Call):
    """A check sent to the RM, and the asks that wait for its answer."""

    __slots__ = ("allocate", "ask_class", "assumed", "first", "gang", "nodes", "request", "reservations")

    def __init__(self, number: int, request: Request, nodes: Iterable[Node], *, allocate: bool) -> None:
        """Start without waiting asks."""
        super().__init__(number)
        self.request = request
        """Request of the ask that the check names."""
        self.ask_class = request.ask.ask_class
        self.allocate = allocate
        """True for an allocation, False for a reservation."""
        self.nodes = {node: (node.known_version, node.narrowed_version) for node in nodes}
        """Nodes of the check, with their `known_version` and `narrowed_version` when it was opened."""
        self.first = next(iter(self.nodes))
        """Node of the ask: if the RM accepts this node, it counts the ask as placed."""
        self.assumed: dict[Request, Assumed] = {}
        """Requests that wait for the answer, each booked on one of the nodes."""
        self.reservations: list[Reservation] = []
        """Reservations that end if the RM refuses."""
        self.gang: Application | None = None
        """Application of which the whole gang, or a claim, waits for the answer."""

    @property
    def is_orphaned(self) -> bool:
        """True if the ask that the check names no longer waits for the answer; other asks may still wait."""
        return self.allocate and self.request not in self.assumed

    def is_about(self, node: Node) -> bool:
        """True if the check names the node, and the RM was notified of no change of the node since."""
        asked = self.nodes.get(node)
        return asked is not None and asked[0] == node.known_version

    def stands(self, node: Node) -> bool:
        """True if an acceptance is still valid: no change by the RM has used room on the node since."""
        return self.nodes[node][1] == node.narrowed_version


class PredicateChecks(Predicates):
    """The open checks of one partition, and the requests that wait for their answers.

    Always true: every assumed request waits for one open check.
    """

    def __init__(self, index: NodeIndex, calls: OpenCalls) -> None:
        """Start without checks; `calls` has the open questions of all kinds."""
        self._index = index
        self._calls = calls
        self._about: dict[tuple[AskClass, bool, Node], PredicateCheck] = {}
        self._waiting: dict[Request, PredicateCheck] = {}
        # `n` as in TIMES_THE_LAST, for classes with a check that covered several asks.
        self._spared: dict[AskClass, int] = {}
        self.closed_checks = 0
        self._owed = AnswersOwed(self._waiting)

    @property
    def owed(self) -> AnswersOwed:
        """Blocks asks while too many of them wait for answers."""
        return self._owed

    @property
    def waiting(self) -> int:
        """Number of requests that wait for answers."""
        return len(self._waiting)

    def is_needed(self, ask_class: AskClass, node: Node, *, allocate: bool = True) -> bool:
        """True if the RM has to be asked before an ask of the class may be placed on the node.

        While other asks are assumed on the node, earlier answers do not count, because the RM may have
        accepted one of these asks since.
        """
        if self._calls.policy is None or ask_class.predicate is None:
            return False
        return (allocate and node.assumed > 0) or (ask_class, allocate) not in node.results

    # Asking

    def ask(self, request: Request, node: Node) -> PredicateCheck:
        """Return the check that decides if the request may be placed on the node in its current state.

        A new check names one node for each waiting ask that it covers (`_likely`), and more after
        refusals. An open check about the node is shared, unless an ask is assumed there: the RM has
        to know of the first ask when it decides about the second.
        """
        group: AskGroup = request.group
        check = self._open_about(group.ask_class, node, allocate=True)
        if check is not None:
            if node.assumed or check.is_orphaned:
                # The open check already includes the next nodes.
                return self._put(request, [node], allocate=True)
            self.spared(group.ask_class)
            return check
        spare = (1 << min(group.refusals, MAX_DOUBLINGS)) - 1
        count = min(BATCH, self._likely(group) + spare) - 1
        ahead = self._ahead(group.ask_class, node, count) if count else ()
        return self._put(request, [node, *ahead], allocate=True)

    def spared(self, ask_class: AskClass) -> None:
        """Record that an ask of the class needed no check of its own."""
        spared = self._spared.get(ask_class)
        if spared is not None:
            self._spared[ask_class] = spared + 1

    def ask_to_reserve(self, request: Request, node: Node) -> PredicateCheck:
        """Return the check that decides if the node may be reserved for the ask."""
        check = self._open_about(request.ask.ask_class, node, allocate=False)
        return check or self._put(request, [node], allocate=False)

    def ask_before(self, question: NodeQuestion) -> None:
        """Ask about nodes for a whole gang or a claim: nothing is booked before the answer."""
        app = question.app
        for request, nodes in question.questions:
            for start in range(0, len(nodes), BATCH):
                check = self._put(request, nodes[start : start + BATCH], allocate=False)
                check.gang = app
                app.gang.questions += 1

    def ask_for(self, asker: object, request: Request, nodes: Iterable[Node]) -> None:
        """Ask about nodes for an ask without booking it; `asker` processes the answer."""
        self._put(request, nodes, allocate=False).asker = asker

    def ask_again(self, assumed: Assumed) -> None:
        """Move an assumed ask to a new check, because its node has changed."""
        allocate = self._waiting[assumed.request].allocate
        self.leave(assumed.request)
        self.wait(self._put(assumed.request, [assumed.node], allocate=allocate), assumed)

    def is_asked_about(self, ask_class: AskClass, node: Node) -> bool:
        """True if an open check asks about a reservation for the class on the node in its current state."""
        return self._open_about(ask_class, node, allocate=False) is not None

    def _open_about(self, ask_class: AskClass, node: Node, *, allocate: bool) -> PredicateCheck | None:
        """The open check about the node in its current state; None if there is none."""
        check = self._about.get((ask_class, allocate, node))
        return check if check is not None and check.is_about(node) else None

    def _put(self, request: Request, nodes: Iterable[Node], *, allocate: bool) -> PredicateCheck:
        number, ask = self._calls.next_number(), request.ask
        check = PredicateCheck(number, request, nodes, allocate=allocate)
        check.behind = len(self._waiting)
        for node in check.nodes:
            self._about[ask.ask_class, allocate, node] = check
        names = [node.node_id for node in check.nodes]
        self._calls.open(check, AskedCheck(number, ask.app_id, ask.key, allocate, names))
        return check

    def _likely(self, group: AskGroup) -> int:
        """Number of waiting asks that a check covers (`TIMES_THE_LAST`).

        If asks of many classes alternate, they occupy each other's nodes, and most answers are void before
        they are used.
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
        """At most `count` next nodes for the class without a result or an open check."""
        found = self._unknown_ahead(ask_class, candidate, count + 1)
        if len(found) < count:
            # Twice as many nodes, as the RM may have refused that number of nodes just now.
            found = self._unknown_ahead(ask_class, candidate, 2 * count + 1)
        return found[:count]

    def _unknown_ahead(self, ask_class: AskClass, candidate: Node, count: int) -> list[Node]:
        """The nodes among the next `count` that have no result and no open check."""
        return [
            node
            for node in self._index.ahead(ask_class, count)
            if node is not candidate
            and (ask_class, True) not in node.results
            and self._open_about(ask_class, node, allocate=True) is None
        ]

    # Waiting requests

    def wait(self, call: Call, assumed: Assumed) -> None:
        """Let an assumed request wait for the answer of the check."""
        assert isinstance(call, PredicateCheck), f"question {call.number} is about nodes"
        call.assumed[assumed.request] = assumed
        self._waiting[assumed.request] = call
        # A real ask that gets the room of its placeholder is not booked in addition to the placeholder.
        assumed.node.assumed += call.allocate

    def leave(self, request: Request) -> None:
        """End the wait of the request."""
        check = self._waiting.pop(request)
        check.assumed.pop(request).node.assumed -= check.allocate
        if not self._waiting:
            # The RM may have become slow before the next burst.
            self._owed.is_quick = False

    def is_waiting(self, request: Request) -> bool:
        """True if the request waits for an open check, which has a deadline if it was written."""
        check = self._waiting.get(request)
        return check is not None and self._calls.is_awaited(check)

    def closed(self, check: PredicateCheck) -> None:
        """Drop a closed check."""
        self.closed_checks += 1
        if check.gang is not None:
            check.gang.gang.questions -= 1
        for node in check.nodes:
            name = (check.ask_class, check.allocate, node)
            if self._about.get(name) is check:
                del self._about[name]


def checks_of(context: CheckContext) -> PredicateChecks:
    """The checks of a partition, for features that open their own."""
    found = context.predicates
    assert isinstance(found, PredicateChecks)
    return found
