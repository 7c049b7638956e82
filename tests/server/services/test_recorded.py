"""Every call of operators and readers, with what it answers about small scenes.

The scenes are in ``data/recorded/calls``, see ``support/recorded.py``; the places are those of
``support/server/call_scenes.py``. A line with ``>`` is a call with its request, which is repeated until the
answer has the text behind ``until``, or a message on a stream of the RM; one with ``<`` reads such a stream.
"""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass

from licorne.si.v1 import si_pb2
from licorne.v1 import admin_pb2, state_pb2
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.testing import VirtualClock
from support.patience import PATIENCE
from support.peers.shim import Call, info_of, violations
from support.recorded import Answers, Scene, scenes
from support.server.call_scenes import SCENES

READ, UNTIL = "< ", " until "
RECORDED = scenes("calls", "> ", READ)
SERVICES: dict[str, tuple[Any, Callable[[grpc.aio.Channel], Any]]] = {
    "Admin": (admin_pb2, AdminStub),
    "State": (state_pb2, StateStub),
}
NOT_RECORDED = {
    "DumpState": "what REST says, which is recorded",
    "DrainMember": "there are none of a server that is alone",
    "GetHealth": "a verdict, of which bad days are recorded",
    "GetServer": "says which version runs, and for how long",
    "ListEvents": "what commands print, which is recorded",
    "ListMembers": "there are none of a server that is alone",
    "WatchEvents": "does not end",
}
"""Calls that are not recorded, with the reason."""


@pytest.mark.row(52, 55, 58, 109, 155, 156, 157, 158, 168)
@pytest.mark.parametrize("scene", RECORDED, ids=lambda scene: scene.path)
async def test_calls_have_the_recorded_answers(scene: Scene, rewrite: bool, usual_levels: None) -> None:
    """Each call has the recorded answer, or the status, reason and fields of its refusal."""
    async with SCENES[scene.place](VirtualClock()) as (channel, streams), asyncio.timeout(PATIENCE):
        await scene.replay(partial(played, channel, streams, scene.answers), rewrite=rewrite)


async def played(
    channel: grpc.aio.Channel, streams: dict[str, Call], answers: Answers, line: str
) -> list[str]:
    """The output of a line."""
    what, _, until = line[2:].partition(UNTIL)
    name, _, given = what.partition(" ")
    if line.startswith(READ):
        read = [await streams[name].next()]
        while until not in str(read[-1]):
            read.append(await streams[name].next())
        return answers.show(MessageToDict(read[-1]))
    if name in streams:
        message = getattr(si_pb2, name.replace("Update", "") + "Request")(rmID="rm")
        await streams[name].send(ParseDict(json.loads(given), message))
        return []
    answer = await called(name, given, channel, answers)
    while until not in "\n".join(answer):
        answer = await called(name, given, channel, answers)
    return answer


async def called(name: str, given: str, channel: grpc.aio.Channel, answers: Answers) -> list[str]:
    """The answer of a call, or its refusal."""
    service, _, method = name.partition(".")
    module, stub = SERVICES[service]
    request = module.DESCRIPTOR.services_by_name[service].methods_by_name[method].input_type
    message = ParseDict(json.loads(given or "{}"), GetMessageClass(request)())
    try:
        return answers.show(MessageToDict(await getattr(stub(channel), method)(message)))
    except grpc.aio.AioRpcError as error:
        reason, details = info_of(error)
        said = [f"{error.code().name}: {error.details()}"]
        said += [f"reason: {' '.join([reason, *(f'{k}={v}' for k, v in details.items())])}"] if reason else []
        return said + [f"field {field}: {text}" for field, text in violations(error).items()]


def test_every_call_is_recorded() -> None:
    """Each call is recorded, or has a reason why it is not recorded."""
    played = {line[2:].split()[0].rpartition(".")[2] for scene in RECORDED for line in scene.played}
    methods = {
        method.name
        for service, (module, _) in SERVICES.items()
        for method in module.DESCRIPTOR.services_by_name[service].methods
    }
    assert methods - played == set(NOT_RECORDED)
