"""Carrying out what an RM requests, over `si.v1` and over a session alike."""

import asyncio
from collections.abc import Callable
from typing import assert_never

from licorne_core.messages.commands import UpdateAllocations
from licorne_core.messages.effects import Effect
from licorne_server.engine.engine import Engine
from licorne_server.rms.registry import Rms, check_registered
from licorne_server.rms.rm import Rm
from licorne_server.wire.framing import ALLOCATION_REQUEST, APPLICATION_REQUEST, NODE_REQUEST, Split
from licorne_server.wire.pacing import Pace
from licorne_server.wire.requests import Steps, allocation_batch, application_batch, node_batch
from licorne_server.wire.responses import Kind

LAYOUTS = {
    Kind.NODES: NODE_REQUEST,
    Kind.APPLICATIONS: APPLICATION_REQUEST,
    Kind.ALLOCATIONS: ALLOCATION_REQUEST,
}


async def handle_request(
    engine: Engine,
    rms: Rms,
    rm: Rm,
    kind: Kind,
    request: Split,
    is_current: Callable[[], bool],
    read_time: float,
    pace: Pace,
) -> int:
    """Carry out one request of an RM; returns the number of items refused before the core saw them.

    `is_current` is True while the registration of the request is the RM's current one. If it is
    not, the rest of the request is dropped. The request was read at `read_time`, in unix seconds;
    its items are read at the `pace` of its stream.

    Raises:
        CallError: the RM is not registered any more.
    """
    rm.reader.time = read_time
    taken = await _steps(rm, kind, request, engine.budget.items, pace)
    for step in taken.steps:
        if not isinstance(step, Effect):
            if rms.tracing is not None and isinstance(step, UpdateAllocations):
                await rms.tracing.asked(rm.rm_id, step)
            try:
                effects = await engine.submit(step, is_current=is_current)
            finally:
                if rms.tracing is not None:
                    rms.tracing.carried_out(rm.rm_id, step)
            check_registered(effects, LAYOUTS[kind].message)
        elif is_current():
            rms.route([step])
            await asyncio.sleep(0)
    return taken.refused


async def _steps(rm: Rm, kind: Kind, request: Split, batch_size: int, pace: Pace) -> Steps:
    match kind:
        case Kind.NODES:
            return await node_batch(rm.rm_id, request, batch_size, pace)
        case Kind.APPLICATIONS:
            return await application_batch(rm.rm_id, request, batch_size, pace)
        case Kind.ALLOCATIONS:
            return await allocation_batch(rm.rm_id, request, batch_size, rm.reader, pace)
        case Kind.CHECKS | Kind.VICTIMS | Kind.SESSION:
            raise AssertionError("what only a session can say is no request with items")
        case _:
            assert_never(kind)
