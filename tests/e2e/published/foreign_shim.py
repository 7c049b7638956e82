"""A shim that is independent of Licorne: stubs generated from the published interface, and JSON lines.

It runs as a process of its own, because two files that define the same messages cannot be loaded into one
process. Commands are lines on stdin, messages of the server are lines on stdout.
"""

import asyncio
import json
import sys
from typing import Any

import grpc
import scheduler_interface_pb2 as si  # type: ignore[import-not-found]
import scheduler_interface_pb2_grpc as si_grpc  # type: ignore[import-not-found]
from google.protobuf import json_format

REQUESTS = {
    "UpdateNode": si.NodeRequest,
    "UpdateApplication": si.ApplicationRequest,
    "UpdateAllocation": si.AllocationRequest,
}


def say(**line: Any) -> None:
    """Print a line for the test."""
    print(json.dumps(line), flush=True)


async def register(stub: Any, message: dict[str, Any]) -> None:
    """Register, and print the result."""
    request = json_format.ParseDict(message, si.RegisterResourceManagerRequest())
    try:
        response = await stub.RegisterResourceManager(request)
        say(stream="register", message=json_format.MessageToDict(response))
    except grpc.aio.AioRpcError as error:
        say(stream="register", ended=[error.code().name, error.details()])


async def listen(name: str, call: Any) -> None:
    """Print every message that arrives on a stream, and its end."""
    try:
        async for message in call:
            content = json_format.MessageToDict(message, preserving_proto_field_name=True)
            say(stream=name, message=content)
        say(stream=name, ended=["OK", ""])
    except grpc.aio.AioRpcError as error:
        say(stream=name, ended=[error.code().name, error.details()])
    except asyncio.CancelledError:
        say(stream=name, ended=["CANCELLED", ""])


async def main(target: str) -> None:
    """Execute the lines on stdin until their end."""
    assert not any(name.startswith("licorne") for name in sys.modules)
    calls: dict[str, Any] = {}
    listeners = []
    async with grpc.aio.insecure_channel(target) as channel:
        stub = si_grpc.SchedulerStub(channel)
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            name = command.get("stream", "")
            match command["do"]:
                case "register":
                    await register(stub, command["message"])
                case "open":
                    calls[name] = getattr(stub, command["rpc"])()
                    listeners.append(asyncio.create_task(listen(name, calls[name])))
                case "send":
                    request = REQUESTS[command["rpc"]]()
                    await calls[name].write(json_format.ParseDict(command["message"], request))
                case "finish":
                    await calls[name].done_writing()
                case "cancel":
                    calls[name].cancel()
        for call in calls.values():
            call.cancel()
        await asyncio.gather(*listeners)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
