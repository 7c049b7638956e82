"""Gang of an application: its task groups, and counts of their placeholders (spec § 6).

A gang is started whole or not at all. Its placeholders are asked for first and keep the room; then
real allocations take their places one by one.

State tables of an application and its placeholders (spec § 6).

Theory of operation
===================

Three things have states of their own: an application (`states.py`), a placeholder and a real
request (both `requests.py`). A step of one can oblige another to take a step. All such obligations
stand below, one table for each pair; the code that follows them decides nothing by itself.

A real request meets its placeholder like this:

    real      placeholder     what goes on
    PENDING   PLACEHOLDER     a pair is found (`standard/placeholders/`)
    MATCHED   PLACEHOLDER     the RM is asked about the node; without a need to ask this is left out
    LINKED    RELEASING       the RM was told to stop the placeholder
    ALLOCATED RELEASED        the RM has confirmed it, and the real one has the place

A placeholder that is too small for a real request is RELEASING as well, and no pair: it is
cancelled, and real requests of its group wait until it has ended (`ledger/pending.py`).

`PAIRS` says what else can happen on the way. `ON_TIMEOUT` and `ON_GONE` say what the application
does when time is up, and when something of it has gone.
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
from licorne_core.values.resources import EMPTY, Resources, is_zero

DEFAULT_TIMEOUT = 900.0
"""Seconds for which placeholders are kept if the application does not say (spec § 5.4)."""


class GangStyle(StrEnum):
    """Fate of a gang whose placeholders time out (spec § 6.8)."""

    SOFT = "Soft"
    """The application runs on without it: its asks are dropped, and the RM sends them again."""
    HARD = "Hard"
    """The application fails."""

    @classmethod
    def of(cls, text: str) -> "GangStyle":
        """The style that an application names; anything unknown is soft."""
        return cls.HARD if text.strip().lower() == "hard" else cls.SOFT


class TaskGroup:
    """The placeholders of one task group, as numbers.

    Always true: each placeholder that was ever taken is in `count`; it is in `replaced` or in
    `timed_out` once, or else it is open. `free` has the open ones that keep room and that no real
    ask is matched to, in the order of their arrival. `cancelled` has the open ones that were too
    small for a real ask: the RM was asked to stop them, and has not confirmed.
    """

    __slots__ = ("cancelled", "count", "free", "min_resource", "name", "replaced", "timed_out")

    def __init__(self, name: str, min_resource: Resources) -> None:
        """Start without placeholders; `min_resource` is the size of the first one."""
        self.name = name
        self.min_resource = min_resource
        self.count = 0
        """Placeholders that were taken, new and recovered ones."""
        self.replaced = 0
        """Number of placeholders replaced by real allocations."""
        self.timed_out = 0
        """Number of placeholders that ended in another way, or are stopping with no ask waiting."""
        self.free: list[Request] = []
        self.cancelled: dict[Request, None] = {}

    def __repr__(self) -> str:
        """``<TaskGroup workers: 2 of 5 open>``."""
        return f"<TaskGroup {self.name}: {self.open} of {self.count} open>"

    @property
    def open(self) -> int:
        """Placeholders that real asks wait for: to replace them, or to be rid of them (§ 6.4)."""
        return self.count - self.replaced - self.timed_out


class GangUnits(ABC):
    """The units in which a gang is placed and stopped: all members of a unit are, or none.

    An extension says what they are. Such a gang has no placeholders: its members are the asks of the
    application that have a task group.
    """

    def __init__(self, asked_by: str, no_placeholders: str) -> None:
        """Start without members. The texts say what asks for units, and why that excludes placeholders."""
        self.asked_by = asked_by
        self.no_placeholders = no_placeholders
        self.behind = False
        """True if the gang has what it needs: what it places next comes behind all others of its leaf."""
        self.is_known = False
        """True if it follows the members that stay, see `know`; it may ask for them anew."""

    @abstractmethod
    def came(self, request: Request) -> None:
        """A member was booked, as the last one."""

    @abstractmethod
    def went(self, request: Request) -> None:
        """A member is not booked any more."""

    @abstractmethod
    def leaves(self, request: Request, by: int) -> None:
        """A member is being stopped, or will be, with `by` 1; with -1 it is not, or has ended."""

    @abstractmethod
    def know(self, staying: list[Request]) -> None:
        """Follow these members from now on: all that stay, in the order of booking."""

    @property
    @abstractmethod
    def wanted(self) -> int:
        """Number of members that are placed together next; 0 for none."""

    @abstractmethod
    def lack(self, present: int) -> tuple[str, str] | None:
        """Why so many asks are not the next unit, as code and text; None if they are."""

    @abstractmethod
    def whole(self) -> list[Sequence[Request]]:
        """All units, once members are known; the first one is stopped with all others alone."""

    @abstractmethod
    def of(self, request: Request) -> Sequence[Request]:
        """All that are stopped with a member, once members are known; none for any other request."""

    @abstractmethod
    def shrinks(self, time: float, app_id: AppId, count: int, whom: str) -> EventRecord:
        """The event that so many members are stopped for `whom`, before they are."""


def _arrival(placeholder: Request) -> int:
    return placeholder.arrival


class Gang:
    """Gang of an application: its task groups by name, and their terms."""

    __slots__ = (
        "free_count",
        "groups",
        "is_parked",
        "is_whole",
        "placeholder_ask",
        "questions",
        "rooms",
        "style",
        "terms",
        "timeout",
        "units",
    )

    def __init__(
        self,
        placeholder_ask: Resources = EMPTY,
        style: GangStyle = GangStyle.SOFT,
        timeout: float = DEFAULT_TIMEOUT,
        terms: Any = None,
        units: GangUnits | None = None,
    ) -> None:
        """Start without placeholders; `timeout` is in seconds from the first that keeps room."""
        self.placeholder_ask = placeholder_ask
        """Total of all placeholders; empty for an application without a gang."""
        self.style = style
        self.timeout = timeout
        self.terms = terms
        """What an extension says of its nodes (`NodeTerms`); None for any nodes."""
        self.units = units
        """Those in which its members are placed, and stopped; None for all at once."""
        self.is_whole = terms is not None or units is not None
        """True if it has asked for its members to be placed together or not at all."""
        self.questions = 0
        """Open predicate checks for all of it; it is not searched a place meanwhile."""
        self.rooms: dict[Any, None] = {}
        """Rooms that are kept for members which have still to be asked for (`KeptRoom`)."""
        self.groups: dict[str, TaskGroup] = {}
        self.free_count = 0
        """Placeholders that keep room for real asks that are not there yet."""
        self.is_parked = False
        """True if groups of its members are parked as such: each change of one of them is a reason to try
        all."""

    def end_terms(self) -> None:
        """What is left of it is placed one by one, and anywhere."""
        self.terms = None
        self.is_whole = False

    def group_of(self, ask: Ask) -> TaskGroup:
        """The task group of a placeholder."""
        return self.groups[ask.task_group]

    def has(self, task_group: str) -> bool:
        """True if asks of the task group are its members: of any task group, if it has none of its own.

        After a restart the RM does not report placeholders that were replaced.
        """
        return task_group in self.groups if self.groups else bool(task_group)

    def has_member(self, ask: Ask) -> bool:
        """True if the ask is placed with others of the gang, where gangs are placed whole."""
        return self.is_together(ask.ask_class, ask.task_group, placeholder=ask.placeholder)

    def is_together(self, ask_class: AskClass, task_group: str, *, placeholder: bool) -> bool:
        """See `has_member`, for asks of this class and task group."""
        if self.units is None or placeholder:
            return placeholder
        return bool(task_group) and ask_class.required_node is None

    def open_group(self, task_group: str, *, placeholder: bool) -> TaskGroup | None:
        """Return the group whose placeholders a real ask waits for; None if it is a normal ask."""
        if placeholder or not self.groups:
            return None
        group = self.groups.get(task_group)
        return group if group is not None and group.open else None

    def came(self, ask: Ask) -> None:
        """Count a new placeholder."""
        group = self.groups.get(ask.task_group)
        if group is None:
            group = TaskGroup(ask.task_group, ask.ask_class.resources)
            self.groups[ask.task_group] = group
        group.count += 1

    def keep(self, placeholder: Request) -> None:
        """Note that a placeholder keeps room, and no real ask is matched to it."""
        insort(self.group_of(placeholder.ask).free, placeholder, key=_arrival)
        self.free_count += 1

    def take(self, placeholder: Request) -> None:
        """Note that a placeholder is not free any more."""
        free = self.group_of(placeholder.ask).free
        del free[bisect_left(free, placeholder.arrival, key=_arrival)]
        self.free_count -= 1

    @property
    def is_open(self) -> bool:
        """True if a placeholder is open: it waits, keeps room, or is being replaced."""
        return any(group.open for group in self.groups.values())

    def is_complete(self, kept: Resources) -> bool:
        """True if its placeholders keep all the room that it asked for (spec § 6.7).

        Only types that were asked for and are kept count, as in the older core.
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
    TOLD = "the placeholder is told to stop for another reason"
    ENDED = "the placeholder is gone"
    PLACE_LOST = "the placeholder is gone with its node, where the real one was to run"
    NODE_LOST = "the other node, where the real one was to run, does not take it any more"
    DROPPED = "the real one is not wanted any more, or not as it was"


class Count(Enum):
    """Account of the placeholder after a step."""

    OPEN = "open"
    """As before: it is open, or counted already."""
    REPLACED = "replaced"
    TIMED_OUT = "timed out"


class PairStep(NamedTuple):
    """Step of a pair: the real one follows `real`, and the placeholder `placeholder` if any."""

    real: RequestEvent
    placeholder: RequestEvent | None = None
    counts_as: Count = Count.OPEN


_R = RequestState
_E = RequestEvent
_P = PairEvent

PAIRS: dict[tuple[RequestState, RequestState, PairEvent], PairStep] = {
    # There is no promise yet: whatever else happens, the real one waits again.
    **{(_R.PLACEHOLDER, _R.MATCHED, event): PairStep(_E.ROLL_BACK) for event in PairEvent},
    (_R.PLACEHOLDER, _R.MATCHED, _P.AGREED): PairStep(_E.LINK, _E.STOP),
    # The RM is stopping the placeholder. Whatever it says when that has ended: the place is free.
    (_R.RELEASING, _R.LINKED, _P.ENDED): PairStep(_E.CONFIRM, None, Count.REPLACED),
    (_R.RELEASING, _R.LINKED, _P.PLACE_LOST): PairStep(_E.ROLL_BACK, None, Count.TIMED_OUT),
    # The placeholder ends alone, without a successor.
    (_R.RELEASING, _R.LINKED, _P.NODE_LOST): PairStep(_E.ROLL_BACK, None, Count.TIMED_OUT),
    (_R.RELEASING, _R.LINKED, _P.DROPPED): PairStep(_E.RELEASE, None, Count.TIMED_OUT),
}
"""Pair steps by states of placeholder and real request, and by event (spec §§ 6.5, 6.6, 6.12)."""


class Timeout(NamedTuple):
    """Effect of the placeholder timeout."""

    event: AppEvent | None
    """Event that the application follows."""
    drops_asks: bool
    """True if all its asks are dropped; if not, only those for placeholders are."""


_RUNS_ON = Timeout(None, drops_asks=False)

ON_TIMEOUT: dict[tuple[AppState, GangStyle], Timeout] = {
    # The gang has come together, or something of it runs: what was not replaced by now goes.
    (AppState.RUNNING, GangStyle.SOFT): _RUNS_ON,
    (AppState.RUNNING, GangStyle.HARD): _RUNS_ON,
    (AppState.COMPLETING, GangStyle.SOFT): _RUNS_ON,
    (AppState.COMPLETING, GangStyle.HARD): _RUNS_ON,
    # It has not come together.
    (AppState.ACCEPTED, GangStyle.SOFT): Timeout(AppEvent.RESUME, drops_asks=True),
    (AppState.ACCEPTED, GangStyle.HARD): Timeout(AppEvent.FAIL, drops_asks=True),
}
"""By state and style (spec § 6.8); in other states no time is running."""


class Gone(StrEnum):
    """Kind of a request that has left an application."""

    ASK = "an ask"
    REAL = "a real allocation"
    PLACEHOLDER = "a booked placeholder"


class Left(StrEnum):
    """Kinds of requests left in an application."""

    NOTHING = "nothing"
    PLACEHOLDERS = "booked placeholders only"
    ASKS = "asks, and nothing booked"
    MORE = "anything else"


_A = AppState
_G = Gone
_L = Left

ON_GONE: dict[tuple[AppState, Gone, Left], AppEvent] = {
    **{(state, gone, _L.NOTHING): AppEvent.COMPLETE for state in (_A.ACCEPTED, _A.RUNNING) for gone in Gone},
    # The work is done: unreplaced placeholders do not keep it from completing (§ 6.9).
    (_A.ACCEPTED, _G.REAL, _L.PLACEHOLDERS): AppEvent.COMPLETE,
    (_A.RUNNING, _G.REAL, _L.PLACEHOLDERS): AppEvent.COMPLETE,
    # Its time to complete is over, and it has waited for the placeholders that were left.
    (_A.COMPLETING, _G.PLACEHOLDER, _L.NOTHING): AppEvent.COMPLETE,
    # What a timeout has begun ends with the last placeholder (§ 6.8).
    (_A.RESUMING, _G.PLACEHOLDER, _L.NOTHING): AppEvent.RUN,
    (_A.RESUMING, _G.PLACEHOLDER, _L.ASKS): AppEvent.RUN,
    (_A.FAILING, _G.PLACEHOLDER, _L.NOTHING): AppEvent.FAIL,
    (_A.FAILING, _G.REAL, _L.NOTHING): AppEvent.FAIL,
}
"""Application event by state, by departed kind and by remaining kinds (§§ 5.1.1, 6.8-9).

A completing application follows it once its time to complete is over.
"""
