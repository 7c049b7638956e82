"""The end of an allocation, with its consequences for its partner and its application."""

from licorne_core.events.allocations import Freed
from licorne_core.events.journal import EventDetail
from licorne_core.handlers.lifecycle import after_gone, allocation_made
from licorne_core.handlers.outcome import Outcome
from licorne_core.handlers.predicates import roll_back
from licorne_core.handlers.preemption import note_growth
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import Gone, PairEvent, PairStep
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState
from licorne_core.partitions.partition import Partition


def end(
    partition: Partition,
    app: Application,
    request: Request,
    detail: EventDetail,
    now: float,
    outcome: Outcome,
) -> None:
    """Free an allocation; `detail` is published.

    The application completes, fails or goes on as the tables of `gang` say.
    """
    freed = free(partition, app, request, detail, now, outcome)
    outcome.updates += after_gone(partition, app, what_went(request), now, freed)


def what_went(request: Request) -> Gone:
    """Kind of a booked request that goes."""
    return Gone.PLACEHOLDER if request.ask.placeholder else Gone.REAL


def free(
    partition: Partition,
    app: Application,
    request: Request,
    detail: EventDetail,
    now: float,
    outcome: Outcome,
    *,
    with_node: bool = False,
) -> Freed | None:
    """Free an allocation; `with_node` if its node goes as well.

    A real request that waits for the end of the placeholder takes its place (spec §§ 6.6, 6.12).
    Otherwise return the fact to publish, which is not noted yet.
    """
    heir = _heir(partition, app, request, now, with_node=with_node)
    kept = request.allocation
    assert kept is not None, f"{request!r} is booked"
    freed = Freed(now, kept, app.owner, detail)
    partition.ledger.released(app.app_id, request.key, now)
    if heir is None:
        partition.allocations.release(app, request)
        return freed
    partition.journal.note(freed)
    allocation = partition.pairs.take_place(app, *heir, now)
    outcome.made.setdefault(partition, []).append(allocation)
    leaf = partition.leaf_of(app)
    outcome.updates += allocation_made(partition, leaf, app, allocation, now)
    # The RM may have resized it while it waited for its place.
    note_growth(partition, leaf, now)
    return None


def _heir(
    partition: Partition, app: Application, request: Request, now: float, *, with_node: bool
) -> tuple[Request, PairStep] | None:
    """The real request that takes the place of a placeholder; if it cannot, it waits again."""
    heir = request.partner
    if heir is None:
        return None
    event = PairEvent.PLACE_LOST if with_node and _shares_node(request, heir) else PairEvent.ENDED
    if heir.state is RequestState.MATCHED:
        roll_back(partition, app, heir, event, now)
        return None
    step = partition.pairs.step(heir, event)
    if step.real is RequestEvent.CONFIRM:
        return heir, step
    partition.pairs.part(app, heir, event, now)
    return None


def _shares_node(placeholder: Request, request: Request) -> bool:
    kept, own = placeholder.allocation, request.allocation
    return own is None or (kept is not None and own.node_id == kept.node_id)
