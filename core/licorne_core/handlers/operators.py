"""What commands of operators have in common: how they are refused, and waits that end with them."""

from collections.abc import Iterator

from licorne_core.messages.effects import OperatorRefusal
from licorne_core.model.apps.application import Application
from licorne_core.partitions.partition import Partition, latest_end
from licorne_core.partitions.registry import Rm
from licorne_core.values.errors import LicorneError, shown


class Refused(LicorneError):
    """An operator's command is impossible; the text has the reason."""

    def __init__(self, refusal: OperatorRefusal, reason: str) -> None:
        """Create a refusal; `refusal` is for programs."""
        super().__init__(reason)
        self.refusal = refusal


def partition_meant(rm: Rm, name: str) -> Partition:
    """The RM's partition of that wire name.

    Raises:
        Refused: it has none.
    """
    partition = rm.find(name)
    if partition is None:
        raise Refused(OperatorRefusal.NOT_FOUND, f"partition {shown(rm.normalized(name))} not found")
    return partition


def give_up_waits(partition: Partition, app: Application, now: float) -> Iterator[int]:
    """Let the application wait for no node and no blocker, in steps of a job.

    It is not searched for a while, and blockers may change meanwhile.
    """
    for request in list(app.reserved.values()):
        if request.reservation is not None:
            partition.reservations.end(request.reservation, now)
            yield 1
    for claim in [claim for claim in partition.claims.held if claim.app is app]:
        claim.give_up(now)
    yield from partition.wakeups.waiting.unpark_all(app)


def not_there(partition: Partition, app_id: str) -> Refused:
    """Reason that there is no such application: it is over, or was never there."""
    app = latest_end(partition, app_id)
    if app is not None:
        what = f"application {shown(app_id)} is over: it is {app.state.value}"
        return Refused(OperatorRefusal.APPLICATION_OVER, what)
    what = f"application {shown(app_id)} not found in partition {partition.name}"
    return Refused(OperatorRefusal.NOT_FOUND, what)
