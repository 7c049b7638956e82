"""Common parts of operators' commands: refusals, and ending waits."""

from collections.abc import Iterator

from licorne_core.messages.effects import OperatorRefusal
from licorne_core.model.apps.application import Application
from licorne_core.partitions.partition import Partition, latest_end
from licorne_core.partitions.registry import Rm
from licorne_core.values.errors import LicorneError, shown


class CommandRefused(LicorneError):
    """An operator's command is impossible; the text has the reason."""

    def __init__(self, refusal: OperatorRefusal, reason: str) -> None:
        """Create a refusal; `refusal` is the reason for programs, `reason` the text for people."""
        super().__init__(reason)
        self.refusal = refusal


def partition_meant(rm: Rm, name: str) -> Partition:
    """The RM's partition of that wire name.

    Raises:
        CommandRefused: there is no such partition.
    """
    partition = rm.find(name)
    if partition is None:
        raise CommandRefused(OperatorRefusal.NOT_FOUND, f"partition {shown(rm.normalized(name))} not found")
    return partition


def give_up_waits(partition: Partition, app: Application, now: float) -> Iterator[int]:
    """End all waits of the application for nodes and blockers, in steps of a job.

    The application is not examined for a while, and blockers may change meanwhile.
    """
    for request in list(app.reserved.values()):
        if request.reservation is not None:
            partition.reservations.end(request.reservation, now)
            yield 1
    for claim in [claim for claim in partition.claims.held if claim.app is app]:
        claim.give_up(now)
    yield from partition.wakeups.waiting.unpark_all(app)


def not_there(partition: Partition, app_id: str) -> CommandRefused:
    """Refusal for an unknown application, which has ended or never existed."""
    app = latest_end(partition, app_id)
    if app is not None:
        what = f"application {shown(app_id)} is over: it is {app.state.value}"
        return CommandRefused(OperatorRefusal.APPLICATION_OVER, what)
    what = f"application {shown(app_id)} not found in partition {partition.name}"
    return CommandRefused(OperatorRefusal.NOT_FOUND, what)
