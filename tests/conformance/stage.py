"""Player of a scenario: a server, a network and a peer for each name, and a method for each verb."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import grpc

from conformance import books
from conformance.matching import matches
from conformance.network import Network
from conformance.peers import Failed, Peer
from conformance.scenario import Scenario, Step
from licorne.v1.admin_pb2 import DrainMemberRequest, ListMembersRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from support.coordination.etcd import EtcdServer
from support.core.builders import config
from support.docs.pages import ROOT
from support.patience import PATIENCE
from support.server.server_process import ForkedServer
from support.server.settings_file import settings_file

QUICK = {"initial_ms": 20, "maximum_ms": 200}
"""The short waits of reconnecting peers, because scenarios break connections often."""
QUEUES = config("[{name: default}]")
"""The queues of a peer whose scenario names none."""
FILES = ROOT / "tests" / "data" / "tls"
MUTUAL = (
    *("--tls-cert", str(FILES / "server.pem"), "--tls-key", str(FILES / "server.key")),
    *("--tls-client-ca", str(FILES / "ca.pem")),
    # The server's state is read over plain HTTP.
    "--http-insecure",
)
"""The options of a server that requires certificates."""
IDENTITIES = {"rm_identities": {"rm1": ["spiffe://test/rm"]}}
CERTIFICATE = {
    "ca": str(FILES / "ca.pem"),
    "cert": str(FILES / "rm.pem"),
    "key": str(FILES / "rm.key"),
}
"""The certificate of peers for such a server."""
SHOWN = 80
"""The number of output lines in a failure."""
ACTIONS = ("start", "kill", "stop")


class Stage:
    """One run of one scenario with the peers of one language."""

    def __init__(self, scenario: Scenario, seed: int, program: Sequence[str]) -> None:
        """`program` is the command that starts a peer."""
        self._scenario = scenario
        self._seed = seed
        self._program = program
        # A peer without a goodbye would delay the end of the server for this time.
        drain = 10 * PATIENCE
        self._store = EtcdServer() if scenario.members > 1 else None
        flags = list(MUTUAL if scenario.tls else ())
        if self._store is not None:
            flags += ["--coordination", f"etcd://{self._store.target}/conformance"]
            drain = 5
        access = IDENTITIES if scenario.tls else {}
        flags += settings_file(server={"drain": drain}, access=access)
        self._servers = [
            ForkedServer(*flags, http="127.0.0.1:0", completing=scenario.completing)
            for _ in range(scenario.members)
        ]
        self._server = self._servers[0]
        self._networks: dict[str, Network] = {}
        self._peers: dict[str, Peer] = {}
        self._gone: list[Peer] = []
        self._never: list[tuple[Peer, Sequence[Mapping[str, Any]], int]] = []
        self._once: defaultdict[str, list[tuple[Mapping[str, Any], str]]] = defaultdict(list)
        self._said: list[str] = []
        self._verbs: Mapping[str, Callable[[Step], Coroutine[Any, Any, None]]] = {
            "connect": self._connect,
            "do": self._do,
            "expect": self._expect,
            "absent": self._absent,
            "never": self._note_never,
            "once": self._note_once,
            "server": self._act,
            "network": self._disturb,
            "members": self._steer,
            "state": self._state,
        }

    async def play(self) -> None:
        """Play every step, then end the peers and check the forbidden events.

        Raises:
            Failed: An expectation was not met; the error has the step, the reason, and the last output.
        """
        place = "start"
        async with AsyncExitStack() as stack:
            if self._store is not None:
                stack.enter_context(self._store)
            for server in self._servers:
                await stack.enter_async_context(server)
            if self._store is not None:
                await self._acquaint()
            for number, name in enumerate(self._scenario.peers):
                network = Network(self._server.target, self._seed + number)
                self._networks[name] = await stack.enter_async_context(network)
            stack.push_async_callback(self._kill_peers)
            try:
                for step in self._scenario.steps:
                    place = step.place
                    self._said.append(f"-- {place}: {step.verb}")
                    await self._verbs[step.verb](step)
                place = "end"
                await self._finish()
            except Failed as failure:
                lines = "\n".join(self._said[-SHOWN:])
                raise Failed(f"{self._scenario.name}, {place}: {failure}\n{lines}") from None

    async def _kill_peers(self) -> None:
        for peer in (*self._gone, *self._peers.values()):
            await peer.kill()

    async def _finish(self) -> None:
        """Disconnect the peers, and check all of their events."""
        for network in self._networks.values():
            network.thaw()
        for peer in self._peers.values():
            await peer.finish()
        for peer, patterns, since in self._never:
            peer.check_absent(patterns, since)
        for peer in (*self._gone, *self._peers.values()):
            for pattern, by in self._once[peer.name]:
                peer.check_once(pattern, by)

    def _peer(self, step: Step) -> Peer:
        """The peer of a step; the first one if the step names none."""
        name = step.rest.get("peer") or next(iter(self._scenario.peers))
        if name not in self._peers:
            raise Failed(f"{name} is not connected")
        return self._peers[name]

    def _network(self, step: Step) -> Network:
        return self._networks[step.rest.get("peer") or next(iter(self._scenario.peers))]

    # ---- Peers ----

    async def _connect(self, step: Step) -> None:
        """Start a peer; an earlier one of the same name must have ended."""
        name = step.given
        former = self._peers.pop(name, None)
        if former is not None:
            await former.finish()
            self._gone.append(former)
        peer = self._peers[name] = Peer(name, self._said.append)
        said = {**self._scenario.peers[name], **step.rest}
        addresses = {1: self._networks[name].target}
        known = said.pop("members", addresses)
        first = {
            "target": ",".join(addresses.get(n) or self._servers[n - 1].target for n in known),
            "rm_id": name,
            "instance": 1,
            "queues": QUEUES,
            "retry": QUICK,
            "tls": CERTIFICATE if self._scenario.tls else None,
            **said,
        }
        await peer.start(self._program, first)

    async def _do(self, step: Step) -> None:
        """Send a command to a peer, and check the answer against `error` and `or_event`."""
        rest = dict(step.rest)
        peer = self._peer(step)
        rest.pop("peer", None)
        error, told_by = rest.pop("error", None), rest.pop("or_event", None)
        if step.given == "exit":
            await peer.crash()
            return
        answer = await peer.tell({"do": step.given, **rest})
        refusal = answer.get("error")
        if told_by is not None and refusal is None:
            await peer.expect([told_by])
        elif not matches(error, refusal):
            raise Failed(f"{peer.name}: {answer} where the error was to be {error or 'none'}")

    async def _expect(self, step: Step) -> None:
        await self._peer(step).expect(
            step.given,
            in_order=step.rest.get("in_order", False),
            before=step.rest.get("before"),
            patience=step.rest.get("within", PATIENCE),
        )

    async def _absent(self, step: Step) -> None:
        self._peer(step).check_absent(step.given)

    async def _note_never(self, step: Step) -> None:
        peer = self._peer(step)
        self._never.append((peer, step.given, len(peer.events)))

    async def _note_once(self, step: Step) -> None:
        self._once[self._peer(step).name].append((step.given, step.rest["by"]))

    # ---- Server and network ----

    async def _act(self, step: Step) -> None:
        """Start, kill or stop a server; a restarted server listens on the same ports."""
        server = self._servers[step.rest.get("member", 1) - 1]
        match step.given:
            case "start":
                await server.start()
            case "kill":
                await server.kill()
            case "stop":
                try:
                    code = await asyncio.wait_for(server.stop(), PATIENCE)
                except TimeoutError:
                    raise Failed("the server waits in vain for goodbyes") from None
                if code != 0:
                    raise Failed(f"the server has ended with exit code {code}")
            case other:
                raise Failed(f"server: one of {', '.join(ACTIONS)} was expected, not {other!r}")

    async def _disturb(self, step: Step) -> None:
        """Break, freeze or thaw the connections of a peer, or cut them at random until `calm`."""
        network = self._network(step)
        match step.given:
            case "break":
                await network.cut()
            case "freeze":
                network.freeze()
            case "thaw":
                network.thaw()
            case "cut":
                fewest, most = step.rest["after"]
                network.cut_after(fewest, most, step.rest["times"])
            case "calm":
                network.calm()
                if network.cuts < step.rest.get("at_least", 0):
                    raise Failed(f"the scenario was over after {network.cuts} cuts")
            case other:
                raise Failed(f"network: nobody knows {other!r}")

    async def _steer(self, step: Step) -> None:
        """Drain a member, or end its drain; or wipe the store of the members."""
        assert self._store is not None, "a scenario with `members` has a store"
        if step.given == "wipe":
            await asyncio.to_thread(self._store.wipe)
            return
        name = self._servers[step.rest["member"] - 1].target
        async with grpc.aio.insecure_channel(self._server.target) as channel:
            request = DrainMemberRequest(member=name, drain=step.given == "drain")
            await AdminStub(channel).DrainMember(request, wait_for_ready=True, timeout=PATIENCE)

    async def _acquaint(self) -> None:
        """Wait until the members see each other, because a member that sees no others serves all RMs."""
        for server in self._servers:
            async with grpc.aio.insecure_channel(server.target) as channel, asyncio.timeout(PATIENCE):
                while True:
                    listed = await AdminStub(channel).ListMembers(ListMembersRequest(), wait_for_ready=True)
                    if len(listed.members) >= len(self._servers):
                        break
                    await asyncio.sleep(books.POLL)

    async def _state(self, step: Step) -> None:
        """Poll the state of the server until it matches the step."""
        await books.wait_for(self._server, step.given, step.rest)
