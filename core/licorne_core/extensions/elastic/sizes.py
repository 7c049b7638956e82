"""Sizes of elastic gangs: the units in which they start, grow and shrink."""

from collections.abc import Sequence
from typing import Final

from licorne_core.extensions.elastic.terms import GANG_MIN, ElasticTerms
from licorne_core.messages.events.records import EventRecord, EventType
from licorne_core.messages.together import GANG_INCOMPLETE
from licorne_core.model.apps.gang import GangUnits
from licorne_core.model.apps.requests import Request
from licorne_core.values.ids import AppId

ELASTIC_MAX: Final = "ELASTIC_MAX"
"""Code of a gang at its maximum."""
_NO_PLACEHOLDERS: Final = "the members of an elastic gang start together without placeholders"


class Elastic(GangUnits):
    """Size of an elastic gang: its members are the asks of an application that have a task group.

    The members are real asks. `terms.least` of them start together, and the others in whole steps. A gang
    that has lost members is first filled up to a whole step. A stop of the minimum stops the whole gang.
    """

    def __init__(self, terms: ElasticTerms) -> None:
        """Start without members."""
        super().__init__(f"tag {GANG_MIN}", _NO_PLACEHOLDERS)
        self.terms = terms
        self.size = 0
        """Number of booked members."""
        self.leaving = 0
        """Number of booked members that are noticed, or are being stopped for others."""
        self._staying: list[Request] = []
        """Members that are not leaving, in the order of booking; valid while `is_current`."""
        self._positions: dict[Request, int] = {}
        """Positions in `_staying`."""

    def add_booked(self, request: Request) -> None:
        """Add a booked member at the end."""
        self.size += 1
        if self.is_current:
            self._positions[request] = len(self._staying)
            self._staying.append(request)
        self._count()

    def remove_booked(self, request: Request) -> None:
        """Remove a member that is not booked any more."""
        self.size -= 1
        self._forget(request)
        self._count()

    def mark_leaving(self, request: Request, by: int) -> None:
        """Count a leaving member: `by` is 1 if it is noticed or being stopped, -1 once it has ended."""
        self.leaving += by
        if by > 0:
            self._forget(request)
        else:
            self.is_current, self._staying = False, []
        self._count()

    def _count(self) -> None:
        # Once the minimum is booked, each further member is growth.
        self.behind = self.size - self.leaving >= self.terms.least

    def _forget(self, request: Request) -> None:
        position = self._positions.pop(request, -1)
        if not self.is_current or position < 0:
            return
        if position < len(self._staying) - self.terms.step:
            # The positions of many other requests have changed: the next call sorts again.
            self.is_current, self._staying = False, []
            return
        del self._staying[position]
        for number in range(position, len(self._staying)):
            self._positions[self._staying[number]] = number

    def set_staying(self, staying: list[Request]) -> None:
        """Set the members: all that are not being stopped, in the order of booking."""
        self.is_current = True
        self._staying = staying
        self._positions = {request: number for number, request in enumerate(staying)}

    @property
    def wanted(self) -> int:
        """Number of members placed together next, so that the staying members are whole steps.

        0 if the gang would exceed its maximum, which counts leaving members as well.
        """
        least, most, step = self.terms
        stay = self.size - self.leaving
        wanted = least - stay if stay < least else step - (stay - least) % step
        return 0 if most and self.size + wanted > most else wanted

    def lack(self, present: int) -> tuple[str, str] | None:
        """Code and text of the reason why `present` asks are not the next unit; None if they are."""
        wanted = self.wanted
        if present == wanted > 0:
            return None
        if wanted:
            text = f"asks for {present} of the {wanted} members that are placed together next have come"
            return GANG_INCOMPLETE, text
        text = f"the gang has {self.size} of {self.terms.most} members, its maximum"
        if self.leaving:
            text = f"{text}; {self.leaving} of them are being stopped"
        return ELASTIC_MAX, text

    def whole(self) -> list[Sequence[Request]]:
        """The minimum and the steps, without members that are being stopped.

        The last step may have too few members. A gang below its minimum is one unit.
        """
        members, (least, _, step) = self._staying, self.terms
        steps = [members[at : at + step] for at in range(least, len(members), step)]
        return [members[:least], *steps] if members else []

    def of(self, request: Request) -> Sequence[Request]:
        """Requests stopped together with a member: its step, or the whole gang; none for other requests."""
        members, (least, _, step) = self._staying, self.terms
        position = self._positions.get(request, -1)
        if position < least:
            return members[:] if position >= 0 else ()
        begin = position - (position - least) % step
        return members[begin : begin + step]

    def shrinks(self, time: float, app_id: AppId, count: int, whom: str) -> EventRecord:
        """APP: members are stopped for an ask or a queue."""
        before = self.size - self.leaving
        text = f"ELASTIC_SHRUNK: from {before} to {before - count} members for {whom}"
        return EventRecord(time, EventType.APP, app_id, message=text)
