"""The client against a real server over loopback."""

import asyncio

import pytest

from licorne import (
    Allocated,
    Application,
    Ask,
    Client,
    Closed,
    ConfigInvalid,
    ConnectionLost,
    Event,
    Handlers,
    Node,
    NodeAccepted,
    Rejected,
    RetryConfig,
)
from licorne_server.testing import FakeRM, Proxy, serve
from support.patience import PATIENCE
from support.peers.shim import TWO_QUEUES as CONFIG


def asks(count: int, *, vcore: int = 1000, application_id: str = "app") -> list[Ask]:
    """Asks ``k1``, ``k2`` and so on."""
    return [
        Ask(key=f"k{n}", application_id=application_id, resources={"vcore": vcore})
        for n in range(1, count + 1)
    ]


async def next_events(client: Client, count: int) -> list[Event]:
    """The next events, as many as requested."""
    events: list[Event] = []
    async with asyncio.timeout(PATIENCE):
        async for event in client.events():
            events.append(event)
            if len(events) == count:
                break
    return events


async def placed(client: Client, count: int) -> dict[str, str]:
    """Wait until this number of asks is placed, each once; return the node of every key."""
    nodes: dict[str, str] = {}
    async with asyncio.timeout(PATIENCE):
        async for batch in client.batches():
            for event in batch:
                if isinstance(event, Allocated):
                    assert event.key not in nodes
                    nodes[event.key] = event.node_id
            if len(nodes) >= count:
                break
    return nodes


async def test_calls_before_the_server_starts_are_sent_later() -> None:
    """The client connects when there is a server; no earlier call is lost."""
    async with Proxy() as proxy, Client(proxy.target, rm_id="rm1") as rm:
        await rm.add_nodes([Node(node_id="n1", capacity={"vcore": 4000})])
        await rm.submit_applications([Application(application_id="app", user="ann")])
        await rm.ask(asks(3))
        async with serve(CONFIG) as server:
            proxy.upstream = server.target
            assert await placed(rm, 3) == {"k1": "n1", "k2": "n1", "k3": "n1"}


async def test_a_refused_configuration_is_an_error_with_its_problems() -> None:
    """An invalid configuration raises all of its problems, and the client ends."""
    bad = "partitions: [{name: default, queues: [{name: a.b}, {name: c.d}]}]"
    async with serve() as server, Client(server.target, rm_id="rm1", config=bad) as rm:
        with pytest.raises(ConfigInvalid, match="registration of RM failed") as refused:
            await asyncio.wait_for(rm.ready(), PATIENCE)
        assert [problem.split(":")[2].strip() for problem in refused.value.problems] == [
            "partitions[0].queues[0].name",
            "partitions[0].queues[1].name",
        ]
        with pytest.raises(ConfigInvalid):
            await rm.ask(asks(1))
        with pytest.raises(ConfigInvalid):
            await next_events(rm, 1)


async def test_a_configuration_can_be_replaced() -> None:
    """A new configuration takes effect at once; an invalid one is refused without a change."""
    async with serve() as server, FakeRM(server.target, config=CONFIG) as rm:
        await rm.add_nodes(1, vcore=8000)
        await rm.submit("app", queue="root.small")
        await rm.ask("app", 4, vcore=1000)
        await rm.allocated(2)
        wider = CONFIG.replace("vcore: 2", "vcore: 4")
        assert await rm.client.update_configuration(wider)
        await rm.allocated(4)
        assert not await rm.client.update_configuration(wider)
        with pytest.raises(ConfigInvalid, match="update of configuration failed"):
            await rm.client.update_configuration("partitions: 7")


async def test_a_closed_client_refuses_calls() -> None:
    """A closed client ends its iteration, and refuses further calls."""
    async with serve() as server:
        rm = Client(server.target, rm_id="rm1", config=CONFIG)
        async with rm:
            await asyncio.wait_for(rm.ready(), PATIENCE)
        assert [event async for event in rm.events()] == []
        with pytest.raises(Closed):
            await rm.ask(asks(1))
        with pytest.raises(Closed):
            await asyncio.wait_for(rm.ready(), PATIENCE)


async def test_patience_can_be_limited() -> None:
    """A client with limited patience fails with ConnectionLost when no server answers."""
    retry = RetryConfig(initial=0.01, maximum=0.05, give_up_after=0.2)
    async with Proxy() as proxy, Client(proxy.target, rm_id="rm1", retry=retry) as rm:
        with pytest.raises(ConnectionLost, match=r"no session with .* for 0\.2 s"):
            await asyncio.wait_for(rm.ready(), PATIENCE)


async def test_handlers_are_called_by_kind() -> None:
    """Plain and async handlers get the events of their kind, in order; an error in one ends it."""
    handlers = Handlers()
    heard: list[str] = []

    @handlers.on(NodeAccepted)
    def accepted(event: NodeAccepted) -> None:
        heard.append(event.node_id)

    @handlers.on(NodeAccepted)
    async def accepted_too(event: NodeAccepted) -> None:
        heard.append(f"again {event.node_id}")
        if event.node_id == "n2":
            raise Rejected("n2", "enough")

    async with serve() as server, Client(server.target, rm_id="rm1", config=CONFIG) as rm:
        await rm.add_nodes([Node(node_id=name, capacity={"vcore": 1}) for name in ("n1", "n2")])
        with pytest.raises(Rejected, match="enough"):
            await asyncio.wait_for(handlers.run(rm), PATIENCE)
    assert heard == ["n1", "again n1", "n2", "again n2"]
