"""A server without sockets, an RM that sends it random messages, and a bystander."""

from collections.abc import Iterator
from random import Random
from typing import Any

import grpc
from google.protobuf.message import Message

from licorne.v1 import session_pb2 as sp
from licorne.v1.state_pb2 import Application
from licorne_core.views.audit.invariants import check_invariants
from licorne_server.wire.caps import MAX_ANNOTATION
from support.fuzz.corpus import TARGETS, How, Target
from support.fuzz.drawing import draw
from support.fuzz.peer import Broken, Peer
from support.fuzz.values import BYSTANDER, FUZZED
from support.wire.books import digest
from support.wire.site import Line, Site, Status

TYPED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
}
"""The statuses with which a call may end. Any other means that the server is broken or gone."""
SILENCE = "nothing"
MAX_REASON = MAX_ANNOTATION + 1024
"""Characters of a reason, which may name an application."""
EVERY = 16
"""The records are checked after this number of commands, and at the end."""
SMALL = 8
"""The size of the fuzzed RM's node; its asks are at most as large, or too large for every node."""
LARGE = 1_000


class Stage:
    """One server, which the caller must close."""

    def __init__(self) -> None:
        """Register both RMs, and let the bystander run an allocation."""
        self.site = Site(every=EVERY)
        self._faults: list[str] = []
        self.site.loop.set_exception_handler(lambda _, about: self._faults.append(str(about)))
        self._bystander = Peer(self.site, BYSTANDER, vcore=LARGE)
        self._runs = 0
        self._before = self._let_the_bystander_run()
        self._fuzzed = Peer(self.site, FUZZED, vcore=SMALL)
        self._fuzzed.runs("k0")

    def close(self) -> None:
        """Close everything."""
        self.site.close()

    def send(self, target: Target, raw: bytes) -> list[str]:
        """Send bytes in the name of the fuzzed RM; return the answers, each kind once.

        An answer is the end of the call, unless it continues, or the outcome of an item.

        Raises:
            Broken: The server had an internal error or sent an invalid answer, or the bystander was affected.
        """
        found = sorted(set(self._answers(target, raw))) or [SILENCE]
        self._check()
        return found

    def numbered(self, raw: bytes) -> bytes:
        """A request of the session with the next number, in place of any other number."""
        self._fuzzed.session()
        return self._fuzzed.numbered(raw)

    def pass_time(self, seconds: float) -> None:
        """Let timers fire."""
        self.site.advance(seconds, late=False)
        self._check()

    def finish(self) -> None:
        """Check that the bystander, and the RM after a new registration, are still served.

        Raises:
            Broken: One of them is not.
        """
        check_invariants(self.site.scheduler)
        before, self._before = self._before, self._let_the_bystander_run()
        if self._before == before:
            raise Broken("the digest does not show what the bystander does")
        self._fuzzed.start_over()
        self._fuzzed.take_back_marks()
        self._fuzzed.runs("last")
        self._check()

    def _let_the_bystander_run(self) -> dict[str, Any]:
        """Give the bystander one more allocation; return its digest after that."""
        self._bystander.runs(f"k{self._runs}")
        self._runs += 1
        self._bystander.heard_unasked()
        return digest(self.site.scheduler, BYSTANDER)

    def _answers(self, target: Target, raw: bytes) -> Iterator[str]:
        """Send bytes; yield the answers as text."""
        if target.how is How.CALL:
            status, answer = self.site.call(target.method, raw)
            if answer:
                yield from _read(target.response.FromString(answer))
            yield _ending(status)
            return
        line = self._said(target, raw)
        for message in self._fuzzed.hear(target, line):
            yield from _read(message)
        if line.status is not None:
            yield _ending(line.status)
        elif target.how is not How.LATER:
            # The peer does not know a stream that is opened here, so it cannot close it.
            self.site.hang_up(line)
            self.site.rest()

    def _said(self, target: Target, raw: bytes) -> Line:
        """Send bytes over a stream; return the stream."""
        peer = self._fuzzed
        if target.how is How.WATCH:
            line = self.site.watch(target.method, raw)
            self.site.rest()
            return line
        if target.how is How.FIRST:
            line = self.site.open(target.method)
        else:
            line = peer.session() if target.is_session else peer.stream(target)
        peer.say(line, raw)
        return line

    def _check(self) -> None:
        self.site.check()
        if self._faults:
            raise Broken(f"a task of the server has failed: {self._faults}")
        heard = self._bystander.heard_unasked()
        if heard:
            raise Broken(f"the bystander was told {heard}")
        now = digest(self.site.scheduler, BYSTANDER)
        if now != self._before:
            raise Broken(f"the bystander has other books:\n{self._before}\n{now}")


def _ending(status: Status) -> str:
    """The end of a call as a line."""
    if status.code not in TYPED:
        raise Broken(f"a call has ended with {status.code.name}: {status.text}")
    if status.code is grpc.StatusCode.OK:
        return "OK"
    return f"{status.code.name}: {_reason(status.text)}"


def _reason(text: str) -> str:
    """A reason as one line.

    Raises:
        Broken: It is empty, too long, or has control characters.
    """
    shown = text.replace("\n", " | ")
    if not text or len(text) > MAX_REASON or not shown.isprintable():
        raise Broken(f"this is no reason: {text[:200]!r}")
    return shown


def _read(message: Message) -> Iterator[str]:
    """The contents of a message: each reason, and the kinds of everything else."""
    for field, value in message.ListFields():
        if not isinstance(value, Message) and field.is_repeated and field.message_type is not None:
            for item in value if not field.message_type.GetOptions().map_entry else ():
                # Only some answers have the reason for which an application waits.
                reason = None if isinstance(item, Application) else getattr(item, "reason", None)
                yield field.name if reason is None else f"{field.name}: {_reason(reason)}"
        elif isinstance(message, sp.UpdateResponse) and isinstance(value, Message):
            yield field.name
            yield from _read(value)


MESSAGES = 100
"""The number of messages to one server."""
PAUSES = (0.5, 3.0, 31.0, 100.0)
"""Seconds that may pass after a message."""
_TARGETS = list(TARGETS.values())
_WEIGHTS = [target.weight for target in _TARGETS]


def next_message(rng: Random, stage: Stage) -> tuple[Target, bytes]:
    """A message and its target; requests of a session mostly have the next number."""
    [target] = rng.choices(_TARGETS, _WEIGHTS)
    raw = draw(rng, target.request)
    if target.is_session and target.how is How.LATER and rng.random() < 0.9:
        raw = stage.numbered(raw)
    return target, raw


def play(seed: int) -> int:
    """Send the messages of a seed to one server; return their number.

    Raises:
        Broken: The server did something forbidden; the error has the message.
    """
    rng = Random(seed)
    stage = Stage()
    try:
        for sent in range(MESSAGES):
            target, raw = next_message(rng, stage)
            try:
                stage.send(target, raw)
                if rng.random() < 0.02:
                    stage.pass_time(rng.choice(PAUSES))
            except Exception as error:
                place = f"seed {seed}, message {sent}, {target.name} {raw[:2000].hex()}"
                raise Broken(f"{error}\n{place}") from error
        stage.finish()
        return MESSAGES
    finally:
        stage.close()


def alone(seeds: range) -> Iterator[tuple[Target, bytes, tuple[str, ...]]]:
    """Random messages with their answers, each from a server of its own."""
    for seed in seeds:
        stage = Stage()
        try:
            target, raw = next_message(Random(seed), stage)
            yield target, raw, tuple(stage.send(target, raw))
        finally:
            stage.close()
