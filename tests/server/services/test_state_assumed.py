"""`licorne.v1.State` over the wire: asks with nodes about which their RM is asked."""

from typing import TYPE_CHECKING

import grpc

from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.messages.commands import PredicatePolicy, Tick
from licorne_server.assembly.server import Server
from support.core.builders import app, apps, ask, asks, config, node, nodes, register

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub


async def test_an_ask_that_the_rm_is_asked_about_names_its_node(
    server: Server, channel: grpc.aio.Channel
) -> None:
    """Until the RM has agreed it is an ask, and neither application nor node count it as theirs."""
    for command in (
        register(config("[{name: a}]"), predicates=PredicatePolicy(deadline=60.0)),
        nodes(node("n1", vcore=10)),
        apps(app("one", "root.a")),
        asks(ask("one", "k1", vcore=1, predicate="p"), ask("one", "k2", vcore=1)),
        Tick(),
    ):
        await server.engine.submit(command)
    state: StateAsyncStub = StateStub(channel)
    shown = await state.GetApplication(pb.GetApplicationRequest(application_id="one"))
    assert [(item.allocation_key, item.assumed_node) for item in shown.asks] == [("k1", "n1")]
    assert (shown.pending_asks, shown.allocation_count) == (1, 1)
    [found] = (await state.ListNodes(pb.ListNodesRequest())).nodes
    assert found.allocation_count == 1
    [partition] = (await state.ListPartitions(pb.ListPartitionsRequest())).partitions
    assert (partition.allocations, partition.pending_asks) == (1, 1)
