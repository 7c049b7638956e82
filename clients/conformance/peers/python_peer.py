"""The conformance peer of the Python client: commands on stdin and events on stdout, one per line.

The protocol is described in `clients/conformance/README.md`.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from licorne import (
    Allocated,
    Allocation,
    Application,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationStateChanged,
    Ask,
    AskDropped,
    AskRejected,
    Client,
    Confirm,
    ContainerState,
    Event,
    FailMode,
    LicorneError,
    Node,
    NodeAccepted,
    NodeRejected,
    PredicateCheck,
    PreemptionCheck,
    Reconnected,
    Released,
    ReleaseRequested,
    RetryConfig,
    SessionFenced,
    Termination,
    TlsConfig,
)
from licorne.model import DEFAULT_PARTITION

Command = Mapping[str, Any]

TERMINATIONS = {
    Termination.STOPPED: "STOPPED_BY_RM",
    Termination.TIMEOUT: "TIMEOUT",
    Termination.PREEMPTED: "PREEMPTED_BY_SCHEDULER",
    Termination.REPLACED: "PLACEHOLDER_REPLACED",
}
"""Names of the client's terminations on the wire."""


class Unknown(Exception):
    """The command does not exist."""


def say(**line: Any) -> None:
    """Write one line; the driver reads it at once."""
    print(json.dumps(line), flush=True)


def name_of(error: Exception) -> str:
    """The name that the protocol has for an error of the client."""
    match error:
        case SessionFenced():
            return "Fenced"
        case TypeError() | ValueError():
            return "Rejected"
        case _:
            return type(error).__name__


class Judge:
    """Answers checks in the way that the driver requests."""

    def __init__(self, refuse: Mapping[str, str], victims: Mapping[str, int | None]) -> None:
        """Refuse these nodes, each with its reason; `victims` are the answers about victims."""
        self.refuse = refuse
        self.victims = victims
        self.speaking = asyncio.Event()
        """Set unless the peer is mute."""
        self.speaking.set()

    async def __call__(self, check: PredicateCheck) -> Mapping[str, str]:
        """The refused nodes. A mute peer gives no answer until the check is closed."""
        say(event="check", key=check.key, nodes=check.nodes)
        await self.speaking.wait()
        return {node: self.refuse[node] for node in check.nodes if node in self.refuse}

    async def judge_victims(self, check: PreemptionCheck) -> Mapping[str, int]:
        """The accepted nodes, each with the position of the last victim to stop."""
        nodes = [
            {
                "node": node.node_id,
                "victims": [victim.key for victim in node.victims],
                "start": node.start_index,
            }
            for node in check.nodes
        ]
        say(event="preemption_check", key=check.key, nodes=nodes)
        await self.speaking.wait()
        starts = ((node.node_id, node.start_index) for node in check.nodes)
        answers = ((node, self.victims.get(node, start)) for node, start in starts)
        return {node: index for node, index in answers if index is not None}


def tell_states(states: Sequence[ContainerState]) -> None:
    """Print the asks that no node can take."""
    for state in states:
        say(event="container_state", key=state.key, reason=state.reason)


def client_of(given: Command, judge: Judge | None) -> Client:
    """The client that the first command describes."""
    tls, retry = given.get("tls"), given.get("retry")
    predicates = given.get("predicates") or {}
    return Client(
        given["target"],
        rm_id=given["rm_id"],
        instance=given["instance"],
        config=given.get("queues", ""),
        tls=tls
        and TlsConfig(
            ca=Path(tls["ca"]),
            certificate=Path(tls["cert"]) if tls.get("cert") else None,
            key=Path(tls["key"]) if tls.get("key") else None,
        ),
        retry=retry and RetryConfig(initial=retry["initial_ms"] / 1000, maximum=retry["maximum_ms"] / 1000),
        predicates=judge,
        judge_victims=judge.judge_victims
        if judge is not None and predicates.get("victims") is not None
        else None,
        predicate_deadline=predicates.get("deadline_ms", 2000) / 1000,
        fail_mode=FailMode.OPEN if predicates.get("fail_open") else FailMode.CLOSED,
        confirm=Confirm.NOTHING,
        on_container_states=tell_states if given.get("container_states") else None,
    )


def node_of(item: Command) -> Node:
    """A node as a command describes it."""
    return Node(
        node_id=item["id"],
        capacity=item["capacity"],
        attributes=item.get("attributes", {}),
        partition=item.get("partition") or DEFAULT_PARTITION,
    )


def application_of(item: Command) -> Application:
    """An application as a command describes it."""
    return Application(
        application_id=item["id"],
        queue=item.get("queue", ""),
        user=item.get("user", ""),
        tags=item.get("tags", {}),
        partition=item.get("partition") or DEFAULT_PARTITION,
        placeholder_resources=item.get("placeholder_ask", {}),
        placeholder_timeout=item.get("timeout_ms", 0) / 1000,
        gang_style=item.get("style", ""),
    )


def ask_of(item: Command) -> Ask:
    """An ask as a command describes it."""
    return Ask(
        key=item["key"],
        application_id=item["app"],
        resources=item["resources"],
        priority=item.get("priority", 0),
        tags=item.get("tags", {}),
        partition=item.get("partition") or DEFAULT_PARTITION,
        originator=item.get("originator", False),
        allow_preempt_self=item.get("allow_preempt_self", False),
        allow_preempt_other=item.get("allow_preempt_other", False),
        placeholder=item.get("placeholder", False),
        task_group=item.get("task_group", ""),
    )


def termination_of(name: str) -> Termination:
    """A termination by its name on the wire; raises ValueError for an unknown name."""
    for termination, wire_name in TERMINATIONS.items():
        if wire_name == name:
            return termination
    raise ValueError(f"{name} is no type of a release")


def line_of(event: Event) -> dict[str, Any] | None:
    """An event in the driver's format; None if the protocol has no such event."""
    match event:
        case NodeAccepted():
            return {"event": "node_accepted", "id": event.node_id}
        case NodeRejected():
            return {"event": "node_rejected", "id": event.node_id, "reason": event.reason}
        case ApplicationAccepted():
            return {"event": "application_accepted", "id": event.application_id}
        case ApplicationRejected(application_id, reason):
            return {"event": "application_rejected", "id": application_id, "reason": reason}
        case ApplicationStateChanged(application_id, state):
            return {"event": "application_state", "id": application_id, "state": state}
        case Allocated(key, application_id, node_id):
            return {"event": "allocated", "key": key, "node": node_id, "app": application_id}
        case AskRejected():
            return {"event": "ask_rejected", "key": event.key, "reason": event.reason}
        case Released():
            # `Released` means STOPPED_BY_RM: for other terminations the client has other events.
            return released(event.key, "STOPPED_BY_RM", event.message)
        case AskDropped():
            return released(event.key, "TIMEOUT", event.message)
        case ReleaseRequested():
            return released(event.key, TERMINATIONS[event.termination], event.message)
        case Reconnected():
            return {"event": "connected", "resumed": event.resumed}
        case _:
            return None


def released(key: str, kind: str, message: str) -> dict[str, Any]:
    """The line of a release."""
    return {"event": "released", "key": key, "type": kind, "message": message}


class Peer:
    """Carries out the commands on one client."""

    def __init__(self, client: Client, judge: Judge | None) -> None:
        """`judge` is that of the client; None if the client answers no checks."""
        self._client = client
        self._judge = judge
        self._actions: dict[str, Callable[[Command], Awaitable[object]]] = {
            "nodes": lambda c: client.add_nodes(map(node_of, c["nodes"])),
            "update_node": lambda c: client.update_node(c["node"], c["capacity"]),
            "drain": lambda c: client.drain_node(c["node"]),
            "undrain": lambda c: client.undrain_node(c["node"]),
            "remove_node": lambda c: client.remove_node(c["node"]),
            "applications": lambda c: client.submit_applications(map(application_of, c["applications"])),
            "remove_application": lambda c: client.remove_application(c["id"]),
            "asks": self._ask,
            "release": lambda c: client.release(c["keys"], termination_of(c.get("type", "STOPPED_BY_RM"))),
            "configure": lambda c: client.update_configuration(c["queues"]),
            "close": lambda c: client.close(unregister=c.get("unregister", False)),
            "refuse": self._refuse,
            "victims": self._victims,
            "mute": self._mute,
        }

    async def carry_out(self, number: int, command: Command) -> None:
        """Carry out one command, and report its outcome."""
        try:
            action = self._actions.get(command["do"])
            if action is None:
                raise Unknown(f"there is no command {command['do']}")
            await action(command)
        except (LicorneError, Unknown, TypeError, ValueError) as error:
            say(done=number, error=name_of(error), text=str(error))
        else:
            say(done=number)

    async def _ask(self, command: Command) -> None:
        """Submit the asks of a command; those with a node are existing allocations."""
        pending = [ask_of(item) for item in command["asks"] if not item.get("node")]
        placed = [
            Allocation(ask=ask_of(item), node_id=item["node"]) for item in command["asks"] if item.get("node")
        ]
        if placed:
            await self._client.report_allocations(placed)
        if pending:
            await self._client.ask(pending)

    async def _refuse(self, command: Command) -> None:
        self._asked_judge().refuse = command["nodes"]

    async def _victims(self, command: Command) -> None:
        self._asked_judge().victims = command["nodes"]

    async def _mute(self, command: Command) -> None:
        speaking = self._asked_judge().speaking
        if command["on"]:
            speaking.clear()
        else:
            speaking.set()

    def _asked_judge(self) -> Judge:
        if self._judge is None:
            raise ValueError("this peer has connected without predicates")
        return self._judge

    async def tell_events(self) -> None:
        """Print every event until the client has ended, and then the reason for its end."""
        try:
            async for event in self._client.events():
                if (line := line_of(event)) is not None:
                    say(**line)
        except LicorneError as error:
            say(event="final", error=name_of(error), text=str(error))
        else:
            say(event="final", error="Closed", text="")

    async def tell_ready(self) -> None:
        """Print the first connection, for which the client has no event of its own."""
        try:
            await self._client.ready()
        except LicorneError:
            return
        if self._client.stats.welcomed == 1:
            say(event="connected", resumed=False)


async def lines() -> asyncio.StreamReader:
    """The lines of stdin."""
    reader = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader


async def main() -> None:
    """Connect as the first line requests, carry out all other lines, and disconnect in order."""
    reader = await lines()
    given = json.loads(await reader.readline())
    asked = given.get("predicates")
    judge = None
    if asked is not None:
        judge = Judge(asked.get("refuse", {}), asked.get("victims") or {})
    async with client_of(given, judge) as client:
        peer = Peer(client, judge)
        tasks = [asyncio.create_task(peer.tell_events()), asyncio.create_task(peer.tell_ready())]
        number = 0
        while line := await reader.readline():
            command = json.loads(line)
            if command["do"] == "exit":
                os._exit(1)
            number += 1
            await peer.carry_out(number, command)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr)
    asyncio.run(main())
