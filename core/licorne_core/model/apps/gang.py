"""Gang of an application: its task groups, and counts of their placeholders (spec § 6).

A gang is started whole or not at all. Its placeholders are requested first and keep the room; then
real allocations replace them one by one. This module also has the tables of states that tie an application
to its placeholders (spec § 6).

Theory of operation
===================

Three objects have states of their own: an application (`states.py`), a placeholder and a real request (both
`requests.py`). A step of one can oblige another to take a step. All obligations are in the tables below, one
for each pair; the code that applies them makes no decisions.

A real request and its placeholder take these steps:

    real      placeholder     step
    PENDING   PLACEHOLDER     a pair is found (`standard/placeholders/`)
    MATCHED   PLACEHOLDER     the RM is asked about the node; this step is left out if it need not be asked
    LINKED    RELEASING       the RM was asked to stop the placeholder
    ALLOCATED RELEASED        the RM has confirmed the stop, and the real request is placed

A placeholder that is too small for a real request is RELEASING as well, without a pair: it is
cancelled, and real requests of its group wait until it has ended (`ledger/pending.py`).

`PAIRS` has the other events during these steps. `ON_TIMEOUT` and `ON_GONE` have the events of the
application at the timeout, and when one of its requests has ended.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import Any, NamedTuple

from licorne_core.messages.events.records import EventRecord
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState
from licorne_core.model.apps.states import AppEvent
from licorne_core.values.app_states import AppState
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import AppId
from licorne_core.values.resources import EMPTY, Items, Resources, is_zero

DEFAULT_TIMEOUT = 900.0
"""Seconds for which placeholders keep room, unless the application sets another time (spec § 5.4)."""


class GangStyle(StrEnum):
    """Consequence for a gang whose placeholders time out (spec § 6.8)."""

    SOFT = "Soft"
    """The application runs without a gang: its asks are dropped, and the RM sends them again."""
    HARD = "Hard"
    """The application fails, unless it runs already."""

    @classmethod
    def of(cls, text: str) -> "GangStyle":
        """The style with this name in an application; any unknown name means soft."""
        return cls.HARD if text.strip().lower() == "hard" else cls.SOFT


class TaskGroup:
    """Counts of the placeholders of one task group.

    Always true: each placeholder that ever arrived is in `count`; it is in `replaced` or in
    `timed_out` once, or else it is open. `free` has the open ones that keep room and are matched to no
    real ask, in the order of their arrival. `cancelled` has the open ones that were too
    small for a real ask: the RM was asked to stop them, and has not confirmed.
    """

    __slots__ = ("cancelled", "count", "free", "min_resource", "name", "replaced", "timed_out")

    def __init__(self, name: str, min_resource: Resources) -> None:
        """Start without placeholders; `min_resource` is the size of the first one."""
        self.name = name
        self.min_resource = min_resource
        self.count = 0
        """Number of placeholders, new and recovered ones."""
        self.replaced = 0
        """Number of placeholders replaced by real allocations."""
        self.timed_out = 0
        """Number of placeholders that ended unreplaced, or are being stopped and awaited by no ask."""
        self.free: list[Request] = []
        self.cancelled: dict[Request, None] = {}

    def __repr__(self) -> str:
        """``<TaskGroup workers: 2 of 5 open>``."""
        return f"<TaskGroup {self.name}: {self.open} of {self.count} open>"

    @property
    def open(self) -> int:
        """Number of placeholders for which real asks wait: to replace them, or for their end (§ 6.4)."""
        return self.count - self.replaced - self.timed_out


class GangUnits(ABC):
    """The units of a gang: all members of a unit are placed and stopped together, or none.

    An extension defines the units. Such a gang has no placeholders: its members are the asks of the
    application that have a task group.
    """

    def __init__(self, asked_by: str, no_placeholders: str) -> None:
        """Start without members. The texts give the source of the units and why there are no placeholders."""
        self.asked_by = asked_by
        self.no_placeholders = no_placeholders
        self.behind = False
        """True if the gang has its minimum: its next unit is tried after all other asks of its leaf."""
        self.is_current = False
        """True if the members are up to date; set it to False to have `set_staying` called again."""

    @abstractmethod
    def add_booked(self, request: Request) -> None:
        """Add a booked member at the end."""

    @abstractmethod
    def remove_booked(self, request: Request) -> None:
        """Remove a member that is not booked any more."""

    @abstractmethod
    def mark_leaving(self, request: Request, by: int) -> None:
        """Count a member that is noticed or being stopped (`by` is 1), or has ended (`by` is -1)."""

    @abstractmethod
    def set_staying(self, staying: list[Request]) -> None:
        """Set the members: all that are not being stopped, in the order of booking."""

    @property
    @abstractmethod
    def wanted(self) -> int:
        """Number of members that are placed together next; 0 if there are none."""

    @abstractmethod
    def lack(self, present: int) -> tuple[str, str] | None:
        """Code and text of the reason why `present` asks are not the next unit; None if they are."""

    @abstractmethod
    def whole(self) -> list[Sequence[Request]]:
        """All units, if members exist. A stop of the first unit requires that of all others."""

    @abstractmethod
    def of(self, request: Request) -> Sequence[Request]:
        """All requests that are stopped together with a member; empty for any other request."""

    @abstractmethod
    def shrinks(self, time: float, app_id: AppId, count: int, whom: str) -> EventRecord:
        """The event that `count` members will be stopped for `whom`; it is published before their stop."""


def _arrival(placeholder: Request) -> int:
    return placeholder.arrival


class Gang:
    """Gang of an application: its task groups by name, and their terms."""

    __slots__ = (
        "free_count",
        "groups",
        "if_empty",
        "is_parked",
        "is_whole",
        "placeholder_ask",
        "questions",
        "rooms",
        "style",
        "terms",
        "timeout",
        "units",
        "withdrawn",
    )

    def __init__(
        self,
        placeholder_ask: Resources = EMPTY,
        style: GangStyle = GangStyle.SOFT,
        timeout: float = DEFAULT_TIMEOUT,
        terms: Any = None,
        units: GangUnits | None = None,
    ) -> None:
        """Start without placeholders; `timeout` is in seconds from the first placeholder that keeps room."""
        self.placeholder_ask = placeholder_ask
        """Total of all placeholders; empty for an application without a gang."""
        self.style = style
        self.timeout = timeout
        self.terms = terms
        """The nodes that an extension allows for it (`NodeTerms`); None if it may use any nodes."""
        self.units = units
        """Units in which its members are placed and stopped; None if they are placed together."""
        self.is_whole = terms is not None or units is not None
        """True if its members are to be placed together or not at all."""
        self.questions = 0
        """Number of open predicate checks for the whole gang, which is not placed meanwhile."""
        self.rooms: dict[Any, None] = {}
        """Rooms that are reserved for members whose asks have not arrived (`MemberRoom`)."""
        self.if_empty: Any = None
        """Nodes that could hold its next members when empty, by the last search (`IfEmpty`), or None."""
        self.groups: dict[str, TaskGroup] = {}
        self.withdrawn: dict[str, int] = {}
        """Amounts of pending placeholders that were withdrawn and not made up for, since none was pending.

        With the pending ones they are the most that was ever asked for at a time.
        """
        self.free_count = 0
        """Number of placeholders that keep room for real asks that have not arrived."""
        self.is_parked = False
        """True if its groups of members are parked together: after a change of one, all are tried."""

    def end_terms(self) -> None:
        """Drop the constraints: remaining members are placed one by one, on any nodes."""
        self.terms = None
        self.is_whole = False

    def group_of(self, ask: Ask) -> TaskGroup:
        """The task group of a placeholder."""
        return self.groups[ask.task_group]

    def has(self, task_group: str) -> bool:
        """True if asks of the task group are members; a gang without task groups has asks of any as members.

        After a restart groups may be missing: the RM does not report placeholders that were replaced.
        """
        return task_group in self.groups if self.groups else bool(task_group)

    def has_member(self, ask: Ask) -> bool:
        """True if the ask is placed together with others of the gang, as far as gangs are placed whole."""
        return self.is_together(ask.ask_class, ask.task_group, placeholder=ask.placeholder)

    def is_together(self, ask_class: AskClass, task_group: str, *, placeholder: bool) -> bool:
        """True if asks of this class and task group are placed with others of the gang (see `has_member`)."""
        if self.units is None or placeholder:
            return placeholder
        return bool(task_group) and ask_class.required_node is None

    def open_group(self, task_group: str, *, placeholder: bool) -> TaskGroup | None:
        """The group whose placeholders a real ask has to await; None if it is a normal ask."""
        if placeholder or not self.groups:
            return None
        group = self.groups.get(task_group)
        return group if group is not None and group.open else None

    def add_placeholder(self, ask: Ask) -> None:
        """Count a new placeholder in its task group."""
        group = self.groups.get(ask.task_group)
        if group is None:
            group = TaskGroup(ask.task_group, ask.ask_class.resources)
            self.groups[ask.task_group] = group
        group.count += 1

    def make_up(self, items: Items) -> None:
        """Count a placeholder that is asked for in place of withdrawn ones, as far as there are any."""
        for name, value in items:
            self.withdrawn[name] = max(0, self.withdrawn.get(name, 0) - value)

    def keep(self, placeholder: Request) -> None:
        """Add a placeholder that keeps room and is matched to no real ask."""
        insort(self.group_of(placeholder.ask).free, placeholder, key=_arrival)
        self.free_count += 1

    def take(self, placeholder: Request) -> None:
        """Remove a placeholder that is not free any more."""
        free = self.group_of(placeholder.ask).free
        del free[bisect_left(free, placeholder.arrival, key=_arrival)]
        self.free_count -= 1

    @property
    def is_open(self) -> bool:
        """True if a placeholder is open: pending, keeping room, or being replaced."""
        return any(group.open for group in self.groups.values())

    def is_complete(self, kept: Resources) -> bool:
        """True if its placeholders hold all the room that was requested (spec § 6.7).

        Only types that were both requested and held count, as in the older core.
        """
        wanted = self.placeholder_ask
        shared = wanted.keys() & kept.keys()
        return bool(shared) and all(wanted[name] == kept[name] for name in shared)

    @property
    def is_wanted(self) -> bool:
        """True if the application asked for a gang when it was submitted."""
        return not is_zero(self.placeholder_ask)


class PairEvent(StrEnum):
    """Event of a placeholder and the real request that is to replace it."""

    AGREED = "the RM agrees to the node"
    REFUSED = "the RM refuses the node"
    TOLD = "the placeholder is asked to stop for another reason"
    ENDED = "the placeholder is gone"
    PLACE_LOST = "the placeholder is gone with its node, where the real one was to run"
    NODE_LOST = "the other node, where the real one was to run, does not take it any more"
    DROPPED = "the real one is not wanted any more, or not as it was"


class Count(Enum):
    """Counter of the placeholder after a step."""

    OPEN = "open"
    """No counter changes: the placeholder is still open, or was counted before."""
    REPLACED = "replaced"
    TIMED_OUT = "timed out"


class PairStep(NamedTuple):
    """Step of a pair: the events for the real request and the placeholder; None for no event."""

    real: RequestEvent
    placeholder: RequestEvent | None = None
    counts_as: Count = Count.OPEN


_R = RequestState
_E = RequestEvent
_P = PairEvent

PAIRS: dict[tuple[RequestState, RequestState, PairEvent], PairStep] = {
    # The RM was not asked to stop the placeholder yet: after any event the real request is pending again.
    **{(_R.PLACEHOLDER, _R.MATCHED, event): PairStep(_E.ROLL_BACK) for event in PairEvent},
    (_R.PLACEHOLDER, _R.MATCHED, _P.AGREED): PairStep(_E.LINK, _E.STOP),
    # The RM is stopping the placeholder. Whatever the reason of its end, the room is free.
    (_R.RELEASING, _R.LINKED, _P.ENDED): PairStep(_E.CONFIRM, None, Count.REPLACED),
    (_R.RELEASING, _R.LINKED, _P.PLACE_LOST): PairStep(_E.ROLL_BACK, None, Count.TIMED_OUT),
    # The placeholder ends, and nothing takes its room.
    (_R.RELEASING, _R.LINKED, _P.NODE_LOST): PairStep(_E.ROLL_BACK, None, Count.TIMED_OUT),
    (_R.RELEASING, _R.LINKED, _P.DROPPED): PairStep(_E.RELEASE, None, Count.TIMED_OUT),
}
"""Pair steps by states of placeholder and real request, and by event (spec §§ 6.5, 6.6, 6.12)."""


class Timeout(NamedTuple):
    """Effect of a placeholder timeout."""

    event: AppEvent | None
    """Event for the application."""
    drops_asks: bool
    """True if all its asks are dropped; False if only pending placeholders are."""


_RUNS_ON = Timeout(None, drops_asks=False)

ON_TIMEOUT: dict[tuple[AppState, GangStyle], Timeout] = {
    # The gang is complete, or a part of it runs: placeholders that were not replaced are removed.
    (AppState.RUNNING, GangStyle.SOFT): _RUNS_ON,
    (AppState.RUNNING, GangStyle.HARD): _RUNS_ON,
    (AppState.COMPLETING, GangStyle.SOFT): _RUNS_ON,
    (AppState.COMPLETING, GangStyle.HARD): _RUNS_ON,
    # The gang is not complete.
    (AppState.ACCEPTED, GangStyle.SOFT): Timeout(AppEvent.RESUME, drops_asks=True),
    (AppState.ACCEPTED, GangStyle.HARD): Timeout(AppEvent.FAIL, drops_asks=True),
}
"""Effects by state and style (spec § 6.8); in other states there is no timeout."""


class Gone(StrEnum):
    """Kind of a request that has ended in an application."""

    ASK = "an ask"
    REAL = "a real allocation"
    PLACEHOLDER = "a booked placeholder"


class Left(StrEnum):
    """Kinds of the requests that remain in an application."""

    NOTHING = "nothing"
    PLACEHOLDERS = "booked placeholders only"
    ASKS = "asks, and nothing booked"
    MORE = "anything else"


_A = AppState
_G = Gone
_L = Left

ON_GONE: dict[tuple[AppState, Gone, Left], AppEvent] = {
    **{(state, gone, _L.NOTHING): AppEvent.COMPLETE for state in (_A.ACCEPTED, _A.RUNNING) for gone in Gone},
    # All real requests have ended: placeholders do not prevent completion (§ 6.9).
    (_A.ACCEPTED, _G.REAL, _L.PLACEHOLDERS): AppEvent.COMPLETE,
    (_A.RUNNING, _G.REAL, _L.PLACEHOLDERS): AppEvent.COMPLETE,
    # The completing time has passed; only the remaining placeholders delayed the end of the application.
    (_A.COMPLETING, _G.PLACEHOLDER, _L.NOTHING): AppEvent.COMPLETE,
    # The effects of a timeout end with the last placeholder (§ 6.8).
    (_A.RESUMING, _G.PLACEHOLDER, _L.NOTHING): AppEvent.RUN,
    (_A.RESUMING, _G.PLACEHOLDER, _L.ASKS): AppEvent.RUN,
    (_A.FAILING, _G.PLACEHOLDER, _L.NOTHING): AppEvent.FAIL,
    (_A.FAILING, _G.REAL, _L.NOTHING): AppEvent.FAIL,
}
"""Application event by state, by kind of the ended request and by remaining kinds (§§ 5.1.1, 6.8-9).

A completing application processes the event after its completing time.
"""
