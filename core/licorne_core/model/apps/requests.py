"""One request from its arrival to its release: its states (spec §§ 5.3, 6, 9).

A request is an ask together with its state. An application has one object for each, under one key,
from the ask's arrival until its release. The table below has every step; any other step is a defect of
the core.

    PENDING       waits for a node. It counts as pending.
    ASSUMED       is booked on a node, and the RM is being asked about that node. The RM sees a
                  pending ask, but the headroom of other asks counts an allocation.
    ALLOCATED     is booked, and the RM was told.
    PLACEHOLDER   is booked and keeps room for a real request of its task group (spec § 6).
    RELEASING     is booked; the RM was asked to stop it, and has not confirmed (spec § 1.6.10). It
                  is a placeholder, or its application was ended by an operator.
    MATCHED       is a real request that is to replace a placeholder, and the RM is being asked
                  about the node. It is booked as if it were LINKED.
    LINKED        is a real request; the RM was asked to stop its placeholder, and has not
                  confirmed. The queues still count the placeholder. If the real request goes to another
                  node, it is booked on that node only (spec § 6.5c).
    NOTICED       is booked; it is a victim whose stop is delayed. It is spared if its room
                  is not needed any more.
    PREEMPTING    is booked; it is a victim that the RM was asked to stop (spec § 9.4).
    RELEASED      has ended.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from licorne_core.values.asks import Allocation, Ask, Reservation
from licorne_core.values.ids import AllocationKey


class RequestState(StrEnum):
    """State of a request."""

    PENDING = "pending"
    ASSUMED = "assumed"
    ALLOCATED = "allocated"
    PLACEHOLDER = "placeholder"
    RELEASING = "releasing"
    MATCHED = "matched"
    LINKED = "linked"
    NOTICED = "noticed"
    PREEMPTING = "preempting"
    RELEASED = "released"


class RequestEvent(StrEnum):
    """Event of a request."""

    ASSUME = "assume"
    """The request is booked on a node, and the RM is asked about the node."""
    ALLOCATE = "allocate"
    """The request is booked, and the RM is told immediately: decided here, recovered or placed by the RM."""
    KEEP_ROOM = "keep room"
    """The request is booked as a placeholder."""
    CONFIRM = "confirm"
    """The RM accepts the node, or the placeholder that the request replaces has ended."""
    ROLL_BACK = "roll back"
    """The RM refuses the node, or the node has changed since the question."""
    ASK_BACK = "ask back"
    """The RM could not run the request, which is pending again (spec § 1.4, SCHEDULING_FAILED_ON_RM)."""
    MATCH = "match"
    """A placeholder is found for the request, and the RM is asked about the node."""
    LINK = "link"
    """The request is to replace a placeholder that the RM is asked to stop."""
    STOP = "stop"
    """The RM is asked to stop the request."""
    NOTIFY = "notify"
    """The RM is notified that it will be asked to stop the request for another one."""
    SPARE = "spare"
    """The request's room is not needed any more, and the request continues to run."""
    PREEMPT = "preempt"
    """The RM is asked to stop the request for another one."""
    RELEASE = "release"
    """The request's resources are free, or the ask is withdrawn."""


_S = RequestState
_E = RequestEvent

TRANSITIONS: dict[tuple[RequestState, RequestEvent], RequestState] = {
    (_S.PENDING, _E.ASSUME): _S.ASSUMED,
    (_S.PENDING, _E.ALLOCATE): _S.ALLOCATED,
    (_S.PENDING, _E.KEEP_ROOM): _S.PLACEHOLDER,
    (_S.PENDING, _E.MATCH): _S.MATCHED,
    (_S.PENDING, _E.LINK): _S.LINKED,
    (_S.PENDING, _E.RELEASE): _S.RELEASED,
    (_S.ASSUMED, _E.CONFIRM): _S.ALLOCATED,
    (_S.ASSUMED, _E.KEEP_ROOM): _S.PLACEHOLDER,
    (_S.ASSUMED, _E.ROLL_BACK): _S.PENDING,
    (_S.MATCHED, _E.LINK): _S.LINKED,
    (_S.MATCHED, _E.ROLL_BACK): _S.PENDING,
    (_S.LINKED, _E.CONFIRM): _S.ALLOCATED,
    (_S.LINKED, _E.ROLL_BACK): _S.PENDING,
    (_S.LINKED, _E.RELEASE): _S.RELEASED,
    (_S.ALLOCATED, _E.ASK_BACK): _S.PENDING,
    (_S.ALLOCATED, _E.STOP): _S.RELEASING,
    (_S.ALLOCATED, _E.NOTIFY): _S.NOTICED,
    (_S.ALLOCATED, _E.PREEMPT): _S.PREEMPTING,
    (_S.ALLOCATED, _E.RELEASE): _S.RELEASED,
    (_S.PLACEHOLDER, _E.ASK_BACK): _S.PENDING,
    (_S.PLACEHOLDER, _E.STOP): _S.RELEASING,
    (_S.PLACEHOLDER, _E.PREEMPT): _S.PREEMPTING,
    (_S.PLACEHOLDER, _E.RELEASE): _S.RELEASED,
    (_S.RELEASING, _E.RELEASE): _S.RELEASED,
    (_S.NOTICED, _E.SPARE): _S.ALLOCATED,
    (_S.NOTICED, _E.PREEMPT): _S.PREEMPTING,
    (_S.NOTICED, _E.RELEASE): _S.RELEASED,
    (_S.PREEMPTING, _E.RELEASE): _S.RELEASED,
}

# Looked up once: for every ask and allocation, a lookup in the enumeration would cost as much as two calls.
PENDING: Final = RequestState.PENDING
ASSUMED: Final = RequestState.ASSUMED


class Account(StrEnum):
    """A total in which a request counts, with its amounts or as one item."""

    LISTED = "listed"
    """Requests of its application and partition, and asks in the holdings of its RM."""
    PENDING = "pending"
    """Pending amounts and asks of its application, and of the queues from its leaf up to root."""
    ALLOCATED = "allocated"
    """Allocated amounts of its queues, user, group and application; allocations of its application."""
    ON_NODE = "on node"
    """Amounts in use on the node of its allocation, if it has one."""
    ASSUMED = "assumed"
    """Asks of its application that are booked while the RM is asked about their nodes."""
    ASKED = "asked"
    """Asks in its group, and on its node, about which the RM is being asked."""
    KNOWN = "known"
    """Allocations reported to the RM, in its partition; placeholders also in its application."""
    LINKED = "linked"
    """Requests on its node whose placeholders on other nodes have not ended."""
    PREEMPTING = "preempting"
    """Amounts of victims on its node, in its queues, and of its user and group."""


_A = Account

ACCOUNTS: dict[RequestState, tuple[Account, ...]] = {
    _S.PENDING: (_A.LISTED, _A.PENDING),
    _S.ASSUMED: (_A.LISTED, _A.ON_NODE, _A.ALLOCATED, _A.ASSUMED, _A.ASKED),
    _S.ALLOCATED: (_A.LISTED, _A.ON_NODE, _A.ALLOCATED, _A.KNOWN),
    _S.PLACEHOLDER: (_A.LISTED, _A.ON_NODE, _A.ALLOCATED, _A.KNOWN),
    _S.RELEASING: (_A.LISTED, _A.ON_NODE, _A.ALLOCATED, _A.KNOWN),
    # The placeholder counts in the queues, and also on its node if the real request is placed there.
    _S.MATCHED: (_A.LISTED, _A.ON_NODE, _A.ASKED),
    _S.LINKED: (_A.LISTED, _A.ON_NODE, _A.LINKED),
    _S.NOTICED: (_A.LISTED, _A.ON_NODE, _A.ALLOCATED, _A.KNOWN, _A.PREEMPTING),
    _S.PREEMPTING: (_A.LISTED, _A.ON_NODE, _A.ALLOCATED, _A.KNOWN, _A.PREEMPTING),
    _S.RELEASED: (),
}
"""Accounts in which a request counts, by its state.

`ledger/moves.py` posts the differences, and every recount (`views/audit/recount.py`) sums the table.
"""

POSTINGS: dict[tuple[RequestState, RequestEvent], tuple[tuple[Account, ...], tuple[Account, ...]]] = {
    (state, event): (
        tuple(account for account in reversed(ACCOUNTS[state]) if account not in ACCOUNTS[to]),
        tuple(account for account in ACCOUNTS[to] if account not in ACCOUNTS[state]),
    )
    for (state, event), to in TRANSITIONS.items()
}
"""Accounts that a request leaves and enters, by its state and its event."""

TO_REPLACE = frozenset({RequestState.MATCHED, RequestState.LINKED})
"""States of a real request that waits for the end of its placeholder."""

BOOKED = frozenset(state for state, accounts in ACCOUNTS.items() if _A.ALLOCATED in accounts)
"""States in which a request counts in its queues and for its user."""

SHOWN_AS_ASKS = TO_REPLACE | {RequestState.ASSUMED}
"""States of a request that is not pending, but whose node was not reported to the RM yet."""

MAY_GO = frozenset({RequestState.ALLOCATED, RequestState.PLACEHOLDER})
"""States in which a request may be stopped for another one (spec § 9.3)."""

VICTIMS = frozenset(state for state, accounts in ACCOUNTS.items() if _A.PREEMPTING in accounts)
"""States of a victim: its room is promised to another ask."""

STOPPING = frozenset({RequestState.RELEASING, RequestState.PREEMPTING})
"""States in which the RM was asked to stop the request, and has not confirmed it."""


_make: Final = tuple.__new__
"""Creates a named tuple in half the time; each ask needs a tuple."""


class AskPlace(NamedTuple):
    """A request with its position in the order of its application (spec § 5.3.2).

    `arrival` numbers the requests of one application, so that no two have the same place.
    """

    negated_priority: int
    create_time: float
    arrival: int
    request: "Request"


class Setback(NamedTuple):
    """Consecutive failures of the RM to run an ask, and the back-off that follows."""

    failures: int
    until: float
    """The end of the ask's back-off, in unix seconds."""


@dataclass(slots=True, init=False, eq=False)
class Request:
    """An ask of an application, its state, and where it is booked."""

    ask: Ask
    """The ask as the RM last sent it; it is replaced when the RM changes its size."""
    priority: int
    """The ask's priority, or one that an operator set for its application. All decisions use this one."""
    create_time: float
    """Creation time of the ask, in unix seconds."""
    arrival: int
    """Its number among the requests of its application, from 1."""
    state: RequestState
    """Current state; only `follow` changes it."""
    allocation: Allocation | None
    """Its allocation; None while it is pending."""
    reservation: Reservation | None
    """Its reservation of a node while it is pending (spec § 8.5); None if it has none."""
    group: Any
    """The group of the ask (`model/apps/groups.py`); None while it backs off."""
    is_queued: bool
    """True if its place is in the heap of its group, which drops stale places lazily."""
    claim: Any
    """Its claim on a later start while it is pending (`model/claims.py`); None if it has none."""
    partner: "Request | None"
    """The placeholder that a real request is to replace; for a placeholder, the real request."""
    promise: Any
    """Promise of the resources of its victims (§ 9.4); None if it has none."""
    reported: bool
    """True if it was reported to the RM as fitting no node (spec § 8.12)."""
    setback: Setback | None
    """Failures of the RM to run the request; None after a success, or before the first try."""
    triggered: bool
    """True if victims were stopped for the ask (spec § 9.2): only once, unless they were stopped in vain."""
    refused_stops: int
    """Number of times that victims were stopped for the ask on a node that the RM then refused."""
    started: float | None
    """Time at which it started to run, in unix seconds; None if its RM reported none."""
    checkpoint: float | None
    """Time up to which its work is saved if it is stopped, in unix seconds; None if its RM reported none."""

    def __init__(self, ask: Ask, create_time: float, arrival: int) -> None:
        """Create a pending request that is in no group yet."""
        self.ask = ask
        self.priority = ask.priority
        self.group = None
        self.create_time = create_time
        self.arrival = arrival
        self.state = PENDING
        self.allocation = None
        self.reservation = None
        self.setback = None
        self.is_queued = False
        self.claim = None
        self.partner = None
        self.promise = None
        self.reported = False
        self.triggered = False
        self.refused_stops = 0
        self.started = None
        self.checkpoint = None

    def __repr__(self) -> str:
        """``<Request k1 of app-1 allocated on n1>``."""
        where = f" on {self.allocation.node_id}" if self.allocation is not None else ""
        return f"<Request {self.ask.key} of {self.ask.app_id} {self.state.value}{where}>"

    def __lt__(self, other: "Request") -> bool:
        """Always False: of requests with the same place all but one are stale, so any order is right."""
        return False

    def __hash__(self) -> int:
        """Hash by identity. Written out, because a compiled class with an order has no default hash.

        It reads no attribute: a deep copy uses a request as a key before the request has its ask.
        """
        return object.__hash__(self)

    @property
    def key(self) -> AllocationKey:
        """The ask's key, which is also that of the allocation."""
        return self.ask.key

    @property
    def place(self) -> AskPlace:
        """Its position among the requests of its application."""
        return _make(AskPlace, (-self.priority, self.create_time, self.arrival, self))

    @property
    def is_pending(self) -> bool:
        """True if the request waits for a node."""
        return self.state is PENDING

    def follow(self, event: RequestEvent) -> None:
        """Change the state by the event; raise KeyError if the current state has no transition for it."""
        self.state = TRANSITIONS[self.state, event]


def place_of(request: Request) -> AskPlace:
    """The position of a request among the requests of its application."""
    return request.place


def is_ask(request: Request) -> bool:
    """True if the RM counts the request as an ask, not as an allocation."""
    return request.is_pending or request.state in SHOWN_AS_ASKS


def seconds_run(request: Request, now: float) -> float:
    """Run time in seconds; for a recovered allocation without a start time, since the creation of its ask."""
    allocation = request.allocation
    assert allocation is not None, f"{request!r} runs nowhere"
    if request.started is not None:
        return now - request.started
    brought = request.ask.node_id is not None
    return now - (request.create_time if brought else allocation.allocation_time)


def ran(request: Request, now: float) -> float | None:
    """Seconds that an allocation ran until its RM ended it; None if that tells nothing about its runtime.

    Placeholders and allocations that the RM was asked to stop do not count, nor do those that existed before
    the RM reported them, as their start time is unknown.
    """
    allocation = request.allocation
    if allocation is None or request.state is not RequestState.ALLOCATED or request.ask.node_id is not None:
        return None
    return now - allocation.allocation_time


def seconds_lost(request: Request, assumed: float | None, now: float) -> float:
    """Seconds of work since the last checkpoint, which would be lost if the request was stopped now.

    `assumed` is the checkpoint of a request whose RM has reported none, in unix seconds: the median of its
    leaf. If both are missing, the whole run time is lost.
    """
    run = seconds_run(request, now)
    since = assumed if request.checkpoint is None else request.checkpoint
    return run if since is None else max(0.0, min(run, now - since))
