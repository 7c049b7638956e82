"""The path of one ask through the product, from incoming to outgoing bytes."""

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from licorne.si.v1 import si_pb2 as si
from licorne_core.scheduler import Scheduler
from support.wire.connection import WHOLE, Connection
from support.wire.site import OK, Site
from support.wire.still import stillness

CONFIG = """
partitions:
  - name: default
    queues: [{name: root, submitacl: '*', queues: [{name: leaf}]}]
"""
WARM = 20
"""The number of earlier asks on the same path."""
INSIDE = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Functions that newer versions of Python inline."""


@dataclass
class Trace:
    """The calls of Python functions of the product, in order."""

    functions: list[tuple[str, str]] = field(default_factory=list)
    """The module and name of each call."""

    @property
    def calls(self) -> int:
        """The number of calls."""
        return len(self.functions)

    @property
    def modules(self) -> set[str]:
        """The modules with calls."""
        return {module for module, _ in self.functions}


def trace_one_ask(folders: Sequence[Path], others: int = 0) -> Trace:
    """The calls in files below `folders` for one more ask of a warm session that is placed.

    `others` is the number of other RMs, each of which has a session and has submitted one ask before.
    """
    trace, below = Trace(), tuple(map(str, folders))

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name not in INSIDE and code.co_filename.startswith(below):
            trace.functions.append((code.co_filename, code.co_qualname))

    with stillness():
        site = Site(scheduler=Scheduler())
        try:
            connection, *idle = (_session(site, f"rm{number}") for number in range(1 + others))
            for each in idle:
                _ask(each, 0)
                _go(site, each)
            for number in range(WARM):
                _ask(connection, number)
                _go(site, connection)
            _ask(connection, WARM)
            gc.disable()
            sys.setprofile(note)
            try:
                _go(site, connection)
            finally:
                sys.setprofile(None)
                gc.enable()
            told = list(connection.answers(WHOLE, connection.lines[WHOLE]))
        finally:
            site.close()
    [answer] = told
    assert isinstance(answer, si.AllocationResponse)
    assert [made.allocationKey for made in answer.new] == [f"k{WARM}"]
    return trace


def _session(site: Site, rm_id: str) -> Connection:
    """An RM with a node and an application, whose session has begun."""
    connection = Connection(site, rm_id, lambda _: None)
    assert connection.open_session(CONFIG, is_asked=False) == OK
    assert connection.talk is not None
    room = si.Resource(resources={"vcore": si.Quantity(value=100_000)})
    node = si.NodeInfo(nodeID="n", action=si.NodeInfo.CREATE, schedulableResource=room)
    user = si.UserGroupInformation(user="ann", groups=["dev"])
    app = si.AddApplicationRequest(
        applicationID="app", queueName="root.leaf", partitionName="default", ugi=user
    )
    connection.number({"nodes": si.NodeRequest(nodes=[node])})
    connection.number({"applications": si.ApplicationRequest(new=[app])})
    connection.talk.replayed = {"nodes": 1, "applications": 1, "allocations": 0}
    connection.number({"replay_end": connection.talk.end_replay(miscounted=False)})
    _go(site, connection)
    return connection


def _ask(connection: Connection, number: int) -> None:
    """Submit an ask, and process the answer to the previous one."""
    list(connection.answers(WHOLE, connection.lines[WHOLE]))
    size = si.Resource(resources={"vcore": si.Quantity(value=1)})
    ask = si.Allocation(
        allocationKey=f"k{number}",
        applicationID="app",
        partitionName="default",
        resourcePerAlloc=size,
    )
    connection.number({"allocations": si.AllocationRequest(allocations=[ask])})


def _go(site: Site, connection: Connection) -> None:
    """Deliver and process all messages."""
    connection.flow(())
    site.rest()
