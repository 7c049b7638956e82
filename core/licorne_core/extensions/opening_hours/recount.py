"""O1: opening hours of a leaf, compared with its settings and with the time of its next change."""

from licorne_core.extensions.opening_hours import NAME
from licorne_core.extensions.opening_hours.terms import OpeningHours
from licorne_core.model.queues.queue import Queue
from licorne_core.values.errors import InvariantBroken


def check_leaf(queue: Queue, hours: OpeningHours | None, until: float | None, bit: int) -> None:
    """Check a queue: it is closed if its hours say so right before the change at `until`.

    Raises:
        InvariantBroken: the state of the leaf differs.
    """
    wanted = queue.settings.of(NAME) if queue.is_leaf else None
    if hours != wanted:
        raise InvariantBroken(f"O1: queue {queue.path} has the hours {hours}, its settings say {wanted}")
    closed = bool(queue.interests & bit)
    if hours is None:
        if closed or until is not None:
            raise InvariantBroken(f"O1: queue {queue.path} without hours is closed: {closed}, until {until}")
        return
    if until is None:
        raise InvariantBroken(f"O1: no change of queue {queue.path} is awaited")
    # Times of the configuration are whole minutes.
    is_open, change = hours.at(until - 1.0)
    if is_open == closed or change != until:
        raise InvariantBroken(f"O1: queue {queue.path} is closed: {closed}, until {until}, by {hours}")
