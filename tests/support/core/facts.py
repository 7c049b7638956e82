"""Facts for those who test what becomes of them: numbered, so that a gap or a repeat shows."""

from dataclasses import dataclass

from licorne_core.events.journal import EventChange, EventDetail, EventRecord, EventType
from licorne_core.messages.effects import Happened
from licorne_core.values.ids import RmId

START = 1_700_000_000.0
"""When facts happen unless something else is said."""


@dataclass(frozen=True, slots=True)
class Counted:
    """So many events about the applications ``app-<first>`` and following."""

    first: int
    count: int = 1
    time: float = START

    def records(self) -> list[EventRecord]:
        """Each about its own application."""
        return [
            EventRecord(
                type=EventType.APP,
                object_id=f"app-{number}",
                reference_id=f"k-{number}",
                time=self.time,
                change=EventChange.ADD,
                detail=EventDetail.APP_ALLOC,
                resource={"vcore": 100},
            )
            for number in range(self.first, self.first + self.count)
        ]


def counted(first: int, count: int, *, each: int = 1, time: float = START) -> list[Counted]:
    """So many facts of `each` events, their numbers going on from one to the next."""
    return [Counted(first + i * each, each, time) for i in range(count)]


def happened(rm_id: str, first: int, count: int, *, each: int = 1, time: float = START) -> Happened:
    """What a core would say of them."""
    return Happened(rm_id=RmId(rm_id), facts=counted(first, count, each=each, time=time))
