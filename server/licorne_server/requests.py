"""From a request of an RM to the core and back, the same for `si.v1` and `Session`."""

import structlog

from licorne_core.commands import RegisterRm
from licorne_core.effects import Effect, RegistrationFailed
from licorne_server.convert_in import Steps, allocation_batch, application_batch, node_batch
from licorne_server.convert_out import Kind
from licorne_server.engine import Engine
from licorne_server.errors import config_refused
from licorne_server.sessions import Rm, Rms, check_registered
from licorne_server.wire import ALLOCATION_REQUEST, APPLICATION_REQUEST, NODE_REQUEST, Split

log = structlog.get_logger(__name__)

LAYOUTS = {
    Kind.NODES: NODE_REQUEST,
    Kind.APPLICATIONS: APPLICATION_REQUEST,
    Kind.ALLOCATIONS: ALLOCATION_REQUEST,
}


async def register(engine: Engine, rms: Rms, command: RegisterRm) -> None:
    """Register an RM, dropping what it had.

    Raises:
        CallError: the configuration was refused, or there are too many RMs.
    """
    async with rms.registering:
        rms.check_room(command.rm_id)
        effects = await engine.submit(command)
    for effect in effects:
        if isinstance(effect, RegistrationFailed):
            log.warning("registration refused", rm_id=effect.rm_id, reason=effect.reason)
            raise config_refused(effect.reason, effect.problems)


async def handle_request(engine: Engine, rms: Rms, rm: Rm, kind: Kind, request: Split) -> int:
    """Carry out one request of an RM; how many of its items the core did not see.

    What is left of it when the RM registers anew meanwhile is of its former life, and dropped.

    Raises:
        CallError: the RM is not registered any more.
    """
    still = rm.lasting()
    taken = await _steps(rm, kind, request, engine.pace.items)
    for step in taken.steps:
        if not isinstance(step, Effect):
            check_registered(await engine.submit(step, still=still), LAYOUTS[kind].message)
        elif still():
            rms.route([step])
    return taken.dropped


async def _steps(rm: Rm, kind: Kind, request: Split, portion: int) -> Steps:
    match kind:
        case Kind.NODES:
            return await node_batch(rm.rm_id, request, portion)
        case Kind.APPLICATIONS:
            return await application_batch(rm.rm_id, request, portion)
        case _:
            return await allocation_batch(rm.rm_id, request, portion, rm.reader)
