"""How the RMs of a world change their minds about asks for which others have to stop.

What an RM does follows from what it is told alone, and from how often it was told, so that a script
that was cut short goes on as before.
"""

from collections.abc import Iterable
from dataclasses import replace
from zlib import crc32

from licorne_core.messages.commands import Command
from licorne_core.messages.effects import AllocationsReleased, Effect
from licorne_core.scheduler import Scheduler
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import RmId
from support.core.builders import asks
from support.worlds.amounts import TYPES

FOR_ASK = "to free up resources to run "
DELAYS = (0, 0, 1, 1, 2, 5)
"""Steps until the ask has another size."""

FACTORS = (0.0, 0.5, 0.5, 1.0, 1.0, 2.0)
"""What becomes of an amount; a type that the ask did not want counts as a little of it."""


class Resizes:
    """The sizes that are still to be said, and how many more steps that takes."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Nobody was told anything yet; what the RM wants is known of the core's asks."""
        self._scheduler = scheduler
        self._pending: list[tuple[int, RmId, Ask]] = []
        self._told: dict[str, int] = {}

    def hear(self, effects: Iterable[Effect]) -> None:
        """Think about the asks for which something has to stop."""
        for effect in effects:
            if isinstance(effect, AllocationsReleased):
                messages = {told.message: None for told in effect.releases}
                for message in messages:
                    if FOR_ASK in message:
                        self._consider(effect, message)

    def due(self) -> list[Command]:
        """A step has passed: what has another size now."""
        due = [(rm_id, ask) for steps, rm_id, ask in self._pending if steps <= 0]
        self._pending = [(steps - 1, rm, ask) for steps, rm, ask in self._pending if steps > 0]
        return [asks(ask, rm=rm_id) for rm_id, ask in due]

    def _consider(self, effect: AllocationsReleased, message: str) -> None:
        """Every third ask gets another size, and some of these get one twice."""
        what = f"{effect.rm_id} {message}"
        times = self._told[what] = self._told.get(what, 0) + 1
        judged = crc32(f"{what} {times}".encode()) >> 8
        if judged % 3:
            return
        key = message.rpartition(" ")[2]
        partition = self._scheduler.partitions.get(effect.partition)
        promised = [
            request.ask
            for app in (partition.applications.values() if partition else ())
            for request in app.reserved.values()
            if request.key == key and request.promise is not None
        ]
        for ask in promised[:1]:
            for round_ in range(1 + (judged // 3) % 2):
                mood = crc32(f"{what} {times} {round_}".encode()) >> 8
                delay = DELAYS[mood % len(DELAYS)]
                self._pending.append((delay, effect.rm_id, _resized(ask, mood // len(DELAYS))))


def _resized(ask: Ask, mood: int) -> Ask:
    """The ask in another size, which may be smaller in one type and larger in another."""
    before = ask.ask_class
    size = {}
    for number, (name, little) in enumerate(TYPES.items()):
        factor = FACTORS[mood // len(FACTORS) ** number % len(FACTORS)]
        amount = before.resources.get(name, 0)
        if not amount and factor > 1:
            amount = little // 4
        size[name] = int(amount * factor)
    wanted = {name: value for name, value in size.items() if value} or dict(before.resources)
    return replace(ask, ask_class=AskClass.of(wanted, before.required_node, before.predicate))
