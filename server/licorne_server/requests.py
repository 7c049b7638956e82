"""Carrying out what an RM requests, over `si.v1` and over a session alike."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

import structlog

from licorne_core.commands import RegisterRm
from licorne_core.effects import Effect, RegistrationFailed
from licorne_server.config_thread import ConfigThread, Origin
from licorne_server.convert_in import Steps, allocation_batch, application_batch, node_batch
from licorne_server.convert_out import Kind
from licorne_server.engine import Engine
from licorne_server.errors import config_refused
from licorne_server.pacing import Pace
from licorne_server.rms import Rm, Rms, check_registered
from licorne_server.wire import ALLOCATION_REQUEST, APPLICATION_REQUEST, NODE_REQUEST, Split

log = structlog.get_logger(__name__)

LAYOUTS = {
    Kind.NODES: NODE_REQUEST,
    Kind.APPLICATIONS: APPLICATION_REQUEST,
    Kind.ALLOCATIONS: ALLOCATION_REQUEST,
}


async def register(
    engine: Engine, rms: Rms, thread: ConfigThread, command: RegisterRm, config: str, host: str
) -> None:
    """Register an RM, dropping what it had; `config` is the text of the command's configuration.

    `host` is the one that the text came from.

    The caller holds the RM's lock. While the text is parsed nothing else of this RM is begun, and
    other RMs are served.

    Raises:
        CallError: the configuration was refused, there are too many RMs, or the server stops.
    """
    rms.check_room(command.rm_id)
    origin = Origin(host, f"RM {command.rm_id}")
    command = replace(command, config=await thread.parse(origin, config))
    async with rms.registering:
        # Meanwhile others may have registered, or the server may have begun to stop.
        rms.check_open()
        rms.check_room(command.rm_id)
        effects = await engine.submit(command)
    for effect in effects:
        if isinstance(effect, RegistrationFailed):
            log.warning("registration refused", rm_id=effect.rm_id, reason=effect.reason)
            raise config_refused(effect.reason, effect.problems)


async def handle_request(
    engine: Engine,
    rms: Rms,
    rm: Rm,
    kind: Kind,
    request: Split,
    is_current: Callable[[], bool],
) -> int:
    """Carry out one request of an RM; returns how many items were refused before the core saw them.

    `is_current` tells whether the registration that the request is for is still the RM's. If it is
    not, the rest of the request is dropped.

    Raises:
        CallError: the RM is not registered any more.
    """
    taken = await _steps(rm, kind, request, engine.portions.items, rms.pace())
    for step in taken.steps:
        if not isinstance(step, Effect):
            effects = await engine.submit(step, is_current=is_current)
            check_registered(effects, LAYOUTS[kind].message)
        elif is_current():
            rms.route([step])
            await asyncio.sleep(0)
    return taken.refused


async def _steps(rm: Rm, kind: Kind, request: Split, portion: int, pace: Pace) -> Steps:
    match kind:
        case Kind.NODES:
            return await node_batch(rm.rm_id, request, portion, pace)
        case Kind.APPLICATIONS:
            return await application_batch(rm.rm_id, request, portion, pace)
        case Kind.ALLOCATIONS:
            return await allocation_batch(rm.rm_id, request, portion, rm.reader, pace)
        case Kind.CHECKS | Kind.VICTIMS | Kind.SESSION:
            raise AssertionError("what only a session can say is no request with items")
        case _:
            assert_never(kind)
