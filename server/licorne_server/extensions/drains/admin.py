"""The calls that cordon a node, and drain it."""

from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_core.extensions.drains.messages import (
    DrainNode,
    NodeDrainBegun,
    NodeSchedulableSet,
    SetNodeSchedulable,
)
from licorne_core.values.ids import NodeId, RmId
from licorne_server.services.admin.acts import Acts, if_changed
from licorne_server.services.calls import Handler, unary_handler
from licorne_server.store.configurations.revisions import MarkKind
from licorne_server.wire.caps import id_problem

MAX_DRAIN_SECONDS = 7 * 24 * 3600
"""Longest duration of a drain, in seconds."""


class Drains:
    """The calls that cordon and drain nodes."""

    def __init__(self, acts: Acts) -> None:
        """Carry out the calls by `acts`."""
        self._acts = acts

    def methods(self) -> dict[str, Handler]:
        """The methods by name."""
        of = self._acts.rights.audited
        drain = of("drain node", self._drain, "partition", "node_id", "deadline_seconds", "message")
        node = of("set node schedulable", self._node, "partition", "node_id", "schedulable", "message")
        return {
            "SetNodeSchedulable": unary_handler(pb.SetNodeSchedulableRequest, node),
            "DrainNode": unary_handler(pb.DrainNodeRequest, drain),
        }

    async def _node(self, request: pb.SetNodeSchedulableRequest, context: Any) -> Message:
        self._acts.check(request, context, ("node_id", id_problem("node_id", request.node_id)))
        command = SetNodeSchedulable(
            rm_id=RmId(request.rm_id),
            partition=request.partition,
            node_id=NodeId(request.node_id),
            schedulable=request.schedulable,
        )
        mark, on = (MarkKind.NODE, request.node_id), not request.schedulable
        done = await self._acts.marked(
            command,
            NodeSchedulableSet,
            mark,
            request,
            context,
            on=on,
            stays=if_changed,
        )
        return pb.SetNodeSchedulableResponse(changed=done.changed, allocations=done.allocations)

    async def _drain(self, request: pb.DrainNodeRequest, context: Any) -> Message:
        seconds = request.deadline_seconds
        late = f"deadline_seconds is {seconds}: at most {MAX_DRAIN_SECONDS}, which are 7 days"
        self._acts.check(
            request,
            context,
            ("node_id", id_problem("node_id", request.node_id)),
            ("deadline_seconds", late if seconds > MAX_DRAIN_SECONDS else ""),
        )
        command = DrainNode(
            rm_id=RmId(request.rm_id),
            partition=request.partition,
            node_id=NodeId(request.node_id),
            seconds=float(seconds) if request.HasField("deadline_seconds") else None,
        )
        mark = (MarkKind.NODE, request.node_id)
        done = await self._acts.marked(
            command, NodeDrainBegun, mark, request, context, on=True, stays=lambda it: {"drain": it.terms}
        )
        return pb.DrainNodeResponse(allocations=done.terms.allocations, exempt=done.exempt)


METHODS = Drains
