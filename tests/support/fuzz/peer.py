"""A well-behaved RM: it registers, and opens the streams for messages."""

from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as pb
from licorne.v1 import session_pb2 as sp
from support.fuzz.corpus import SESSION, TARGETS, Target
from support.fuzz.values import APPLICATIONS, PLAIN, VARINT, Piece, encoded
from support.peers.shim import application, ask, node
from support.wire.site import Line, Site

REGISTER = TARGETS["RegisterResourceManager"]
NODES = TARGETS["UpdateNode"]
APPS = TARGETS["UpdateApplication"]
ALLOCATIONS = TARGETS["UpdateAllocation"]
EMPTY: dict[str, Any] = {
    NODES.method: si.NodeRequest,
    APPS.method: si.ApplicationRequest,
    ALLOCATIONS.method: si.AllocationRequest,
}
QUEUE = "root.b"
"""The queue of the applications."""


class Broken(Exception):
    """The error that the server did something forbidden."""


class Peer:
    """An RM with one node and some applications."""

    def __init__(self, site: Site, rm_id: str, *, vcore: int) -> None:
        """Register over `si.v1`; `vcore` is the size of its node."""
        self.rm_id = rm_id
        self._site = site
        self._vcore = vcore
        self._lines: dict[str, Line] = {}
        self._instance = 0
        self._received = 0
        self._acknowledged = 0
        self._times = 0
        self.start_over()

    # ---- Streams ----

    def start_over(self) -> None:
        """Register again over `si.v1`, which undoes everything before.

        The text differs each time: with an unchanged one, an applied configuration would remain in force.
        """
        self._times += 1
        for line in self._lines.values():
            self._site.hang_up(line)
        self._lines.clear()
        request = si.RegisterResourceManagerRequest(rmID=self.rm_id, config=f"{PLAIN}\n# {self._times}")
        status, _ = self._site.call(REGISTER.method, request)
        if status.code is not grpc.StatusCode.OK:
            raise Broken(f"{self.rm_id} cannot register: {status}")
        for target, message in zip((NODES, APPS), self._things(), strict=True):
            line = self.stream(target)
            self.say(line, message.SerializeToString())
            self.hear(target, line)

    def take_back_marks(self) -> None:
        """Undo the operators' marks that survive a registration, and register again.

        The node is undrained and the queues are started. An application can only be accepted after that, so
        the RM registers again; then its application is resumed, in its own queue.
        """
        own: dict[str, Any] = {"rm_id": self.rm_id}
        self._as_operator(
            ("SetNodeSchedulable", pb.SetNodeSchedulableRequest(**own, node_id="n0", schedulable=True)),
            ("SetQueueStopped", pb.SetQueueStoppedRequest(**own, queue="root", stopped=False)),
            ("SetQueueStopped", pb.SetQueueStoppedRequest(**own, queue=QUEUE, stopped=False)),
        )
        self.start_over()
        app = {**own, "application_id": APPLICATIONS[0]}
        self._as_operator(
            ("HoldApplication", pb.HoldApplicationRequest(**app, held=False)),
            ("ChangeApplication", pb.ChangeApplicationRequest(**app, reset_priority=True, queue=QUEUE)),
        )

    def _as_operator(self, *calls: tuple[str, Message]) -> None:
        """Make calls of `Admin`.

        Raises:
            Broken: A call was refused.
        """
        for call, request in calls:
            status, _ = self._site.call(TARGETS[call].method, request)
            if status.code is not grpc.StatusCode.OK:
                raise Broken(f"{call} of {self.rm_id} cannot be taken back: {status}")

    def _things(self) -> tuple[si.NodeRequest, si.ApplicationRequest]:
        return (
            si.NodeRequest(rmID=self.rm_id, nodes=[node("n0", vcore=self._vcore)]),
            si.ApplicationRequest(
                rmID=self.rm_id, new=[application(app_id, QUEUE) for app_id in APPLICATIONS[:2]]
            ),
        )

    def stream(self, target: Target) -> Line:
        """The open stream of that kind; an RM that cannot open it starts over."""
        line = self._lines.get(target.method)
        if line is None or not line.is_open:
            line = self._open(target)
        if not line.is_open:
            self.start_over()
            line = self._lines.get(target.method) or self._open(target)
        if not line.is_open:
            raise Broken(f"{self.rm_id} cannot open {target.method}: {line.status}")
        self._lines[target.method] = line
        return line

    def _open(self, target: Target) -> Line:
        line = self._site.open(target.method)
        self.say(line, EMPTY[target.method](rmID=self.rm_id).SerializeToString())
        return line

    def session(self) -> Line:
        """The open stream of the session; without one a session begins, with a replay."""
        line = self._lines.get(SESSION)
        if line is None or not line.is_open:
            line = self._greet()
        if not line.is_open:
            # An earlier message may have named an instance that is newer than all others.
            self.start_over()
            line = self._greet()
        if not line.is_open:
            raise Broken(f"{self.rm_id} cannot open a session: {line.status}")
        return line

    def _greet(self) -> Line:
        self._instance += 1
        self._received = self._acknowledged = 0
        hello = sp.Hello(
            rm_id=self.rm_id,
            instance=self._instance,
            protocol=1,
            registration=si.RegisterResourceManagerRequest(config=PLAIN),
        )
        line = self._site.open(SESSION)
        self.say(line, sp.UpdateRequest(hello=hello).SerializeToString())
        if line.is_open:
            self._lines = {SESSION: line}
            nodes, applications = self._things()
            for message in (
                {"replay_begin": sp.ReplayBegin()},
                {"nodes": nodes},
                {"applications": applications},
                {"replay_end": sp.ReplayEnd(nodes=1, applications=2)},
            ):
                self.say(line, self.numbered(sp.UpdateRequest(**message).SerializeToString()))
                self.hear(TARGETS["Session"], line)
        return line

    # ---- Messages and answers ----

    def numbered(self, raw: bytes) -> bytes:
        """A request of the session with its next number, in place of any other number."""
        last = (Piece(1, VARINT, self._acknowledged + 1), Piece(2, VARINT, self._received))
        return raw + encoded(last)

    def say(self, line: Line, raw: bytes) -> None:
        """Send bytes, and let the server process them."""
        line.under_way.append(raw)
        line.arrive()
        self._site.rest()

    def hear(self, target: Target, line: Line) -> list[Message]:
        """The answers since the last call."""
        found = []
        while line.answers:
            try:
                answer = target.response.FromString(line.answers.popleft())
            except DecodeError as error:
                raise Broken(f"{target.name} was answered with no {target.response}") from error
            if isinstance(answer, sp.UpdateResponse):
                self._received = max(self._received, answer.number)
                self._acknowledged = answer.acknowledged
            found.append(answer)
        return found

    def heard_unasked(self) -> list[Message]:
        """The messages received over the streams since the last call."""
        return [
            answer
            for target in (NODES, APPS, ALLOCATIONS)
            if target.method in self._lines
            for answer in self.hear(target, self._lines[target.method])
        ]

    def runs(self, key: str) -> None:
        """Send one ask over `si.v1`, and wait for its allocation; raises Broken if there is none."""
        line = self.stream(ALLOCATIONS)
        request = si.AllocationRequest(rmID=self.rm_id, allocations=[ask(key, "a0", vcore=1)])
        self.say(line, request.SerializeToString())
        answers = self.hear(ALLOCATIONS, line)
        placed = [item.allocationKey for answer in answers for item in answer.new]  # type: ignore[attr-defined]
        if placed != [key]:
            raise Broken(f"{self.rm_id} asked for {key} and got {answers}, {line.status}")
