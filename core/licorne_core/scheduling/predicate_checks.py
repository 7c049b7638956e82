"""Predicate checks: the RM is asked which nodes its asks may go to (spec § 8.4).

A pass never waits for an answer. What is to be allocated meanwhile is *assumed*: booked, so that
nobody else gets the room, and told to the RM only when it has agreed to the node. What the RM
answers is kept on the nodes (`predicate_results.py`).
"""

from collections.abc import Iterable
from typing import NamedTuple

from licorne_core.apps.application import Application
from licorne_core.apps.groups import AskGroup
from licorne_core.apps.requests import Request
from licorne_core.asks import Ask, AskClass
from licorne_core.effects import PredicatesAsked
from licorne_core.ids import PartitionName, rm_of
from licorne_core.nodes.node import Node
from licorne_core.reservations import Reservation
from licorne_core.rm_context import RmContext
from licorne_core.scheduling.blockers import Blocker
from licorne_core.scheduling.candidates import NodeIndex
from licorne_core.timers import Due, Timer, Timers

BATCH = 100
"""Nodes in a check at the most: where the ask would go, and what comes next."""

SPARE = 8
"""Nodes beyond one for each ask that a check is about; twice as many after each refusal."""

MAX_DOUBLINGS = 8
"""Refusals after which no more nodes are added."""

MAX_ASSUMED = 1024
"""Asks of a partition that may wait for answers at a time; more are not tried meanwhile."""

MAX_ASSUMED_IN_SILENCE = 8
"""The same for an RM whose silence counts as refusal, from then on until it answers something."""


class Assumed(NamedTuple):
    """A request that waits for an answer, and the node that it is booked on."""

    app: Application
    request: Request
    node: Node


class PredicateCheck:
    """A check that the RM is asked to make, and who waits for its answer."""

    __slots__ = ("allocate", "ask_class", "assumed", "nodes", "number", "reservations")

    def __init__(
        self, number: int, ask_class: AskClass, nodes: Iterable[Node], *, allocate: bool
    ) -> None:
        """Nobody waits yet."""
        self.number = number
        self.ask_class = ask_class
        self.allocate = allocate
        """Whether it is about an allocation, not a reservation."""
        self.nodes: dict[Node, int] = {node: node.known_version for node in nodes}
        """The nodes asked about, each with its version as the RM knew it."""
        self.assumed: dict[Request, Assumed] = {}
        """The requests that are booked on one of the nodes meanwhile."""
        self.reservations: list[Reservation] = []
        """The reservations that end if the RM refuses."""

    def is_about(self, node: Node) -> bool:
        """Whether it asks about the node as the RM knows it now."""
        return self.nodes.get(node) == node.known_version


class AnswersOwed(Blocker):
    """So many asks wait for answers of the RM that no more should."""

    __slots__ = ("_checks",)

    def __init__(self, checks: "PredicateChecks") -> None:
        """The answers to these checks."""
        super().__init__()
        self._checks = checks

    def lets_through(self) -> bool:
        """Whether another ask may wait."""
        return not self._checks.full


class PredicateChecks:
    """The open checks of one partition, and the requests that wait for their answers.

    Always true: every assumed request waits for one open check, and every open check has a
    deadline.
    """

    __slots__ = (
        "_about",
        "_index",
        "_open",
        "_partition",
        "_rm",
        "_timers",
        "_unsent",
        "_waiting",
        "is_silent",
        "owed",
    )

    def __init__(
        self,
        partition: PartitionName,
        rm: RmContext,
        index: NodeIndex,
        timers: Timers[Timer],
    ) -> None:
        """None are open."""
        self._partition = partition
        self._rm = rm
        self._index = index
        self._timers = timers
        self._open: dict[int, PredicateCheck] = {}
        self._about: dict[tuple[AskClass, bool, Node], PredicateCheck] = {}
        self._waiting: dict[Request, PredicateCheck] = {}
        self._unsent: list[PredicatesAsked] = []
        self.is_silent = False
        """Whether the RM let the last deadline pass, and its silence counts as refusal."""
        self.owed = AnswersOwed(self)
        """What blocks asks while too many wait for answers."""

    @property
    def waiting(self) -> int:
        """Requests that wait for answers."""
        return len(self._waiting)

    @property
    def most(self) -> int:
        """Requests that may wait for answers at a time."""
        return MAX_ASSUMED_IN_SILENCE if self.is_silent else MAX_ASSUMED

    @property
    def full(self) -> bool:
        """Whether so many requests wait for answers that no more should."""
        return len(self._waiting) >= self.most

    def is_needed(self, ask_class: AskClass, node: Node, *, allocate: bool = True) -> bool:
        """Whether the RM has to be asked before an ask of the class may go to the node."""
        return (
            self._rm.predicates is not None
            and ask_class.predicate is not None
            and (ask_class, allocate) not in node.results
        )

    # Asking

    def ask(self, group: AskGroup, ask: Ask, node: Node, now: float) -> PredicateCheck:
        """The check whose answer tells whether an ask of the group may go to the node as it is."""
        check = self._open_about(group.ask_class, node, allocate=True)
        if check is not None:
            return check
        spare = SPARE << min(group.refusals, MAX_DOUBLINGS)
        ahead = self._ahead(group.ask_class, node, min(BATCH, group.waiting + spare))
        return self._put(ask, [node, *ahead], now, allocate=True)

    def ask_to_reserve(self, ask: Ask, node: Node, now: float) -> PredicateCheck:
        """The check whose answer tells whether the node may be reserved for the ask."""
        check = self._open_about(ask.ask_class, node, allocate=False)
        return check or self._put(ask, [node], now, allocate=False)

    def ask_again(self, waiting: Iterable[Assumed], now: float) -> None:
        """What waits for nodes that are not as they were asked about waits for another answer.

        One more check does for all of them, which are of one class.
        """
        waiting = list(waiting)
        nodes: dict[Node, Ask] = {}
        for assumed in waiting:
            ask = assumed.request.ask
            if self._open_about(ask.ask_class, assumed.node, allocate=True) is None:
                nodes.setdefault(assumed.node, ask)
        if nodes:
            self._put(next(iter(nodes.values())), nodes, now, allocate=True)
        for assumed in waiting:
            self.leave(assumed.request)
            ask_class = assumed.request.ask.ask_class
            check = self._open_about(ask_class, assumed.node, allocate=True)
            assert check is not None, f"{assumed.node.node_id} was asked about just now"
            self.wait(check, assumed)

    def take_unsent(self) -> list[PredicatesAsked]:
        """The checks that the RM was not told yet."""
        unsent = self._unsent
        if unsent:
            self._unsent = []
        return unsent

    def _open_about(
        self, ask_class: AskClass, node: Node, *, allocate: bool
    ) -> PredicateCheck | None:
        """The open check about the node as it is now."""
        check = self._about.get((ask_class, allocate, node))
        return check if check is not None and check.is_about(node) else None

    def _put(
        self, ask: Ask, nodes: Iterable[Node], now: float, *, allocate: bool
    ) -> PredicateCheck:
        policy = self._rm.predicates
        assert policy is not None, "an RM that has no predicates is not asked"
        number, deadline = self._rm.next_check(), now + policy.deadline
        check = PredicateCheck(number, ask.ask_class, nodes, allocate=allocate)
        self._open[number] = check
        for node in check.nodes:
            self._about[ask.ask_class, allocate, node] = check
        self._timers.set(Timer(Due.ANSWER, check=number), deadline)
        self._unsent.append(
            PredicatesAsked(
                rm_id=rm_of(self._partition),
                partition=self._partition,
                check=number,
                app_id=ask.app_id,
                key=ask.key,
                allocate=allocate,
                nodes=[node.node_id for node in check.nodes],
                deadline=deadline,
            )
        )
        return check

    def _ahead(self, ask_class: AskClass, candidate: Node, count: int) -> list[Node]:
        """The nodes that come next for the class, as far as nothing is known of them yet."""
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

    def leave(self, request: Request) -> None:
        """A request waits no more."""
        del self._waiting.pop(request).assumed[request]

    def is_waiting(self, request: Request) -> bool:
        """Whether the request waits for an answer that has a deadline."""
        check = self._waiting.get(request)
        return check is not None and Timer(Due.ANSWER, check=check.number) in self._timers

    # Answers

    def close(self, number: int) -> PredicateCheck | None:
        """The check is answered, or will not be; None if it is not open."""
        check = self._open.pop(number, None)
        if check is not None:
            self._timers.cancel(Timer(Due.ANSWER, check=number))
            for node in check.nodes:
                name = (check.ask_class, check.allocate, node)
                if self._about.get(name) is check:
                    del self._about[name]
        return check
