"""A site and its RMs: how they become idle, and their invariants."""

from collections.abc import Sequence
from random import Random
from typing import Any

import grpc

from support.wire.books import Books, books_of, digest
from support.wire.connection import ALLOCATIONS, APPLICATIONS, KINDS, NODES
from support.wire.items import AppItem, AskItem, Config, NodeItem, home
from support.wire.ledger import Item, believed
from support.wire.shim import WireRm
from support.wire.site import OK, Site
from support.wire.tracks import Violation

RM_IDS = ("rm1", "rm2")
MAX_EXCHANGES = 50


class World:
    """Two RMs at one server, and the script of their messages."""

    def __init__(self) -> None:
        """Start without RMs."""
        self.script: list[str] = []
        self.site = Site()
        self.rms = [WireRm(self.site, rm_id, self.script) for rm_id in RM_IDS]
        self._digests: dict[str, Any] = {rm_id: self.digest(rm_id) for rm_id in RM_IDS}
        self._touched: set[str] = set()

    def close(self) -> None:
        """Stop the server."""
        self.site.close()

    def digest(self, rm_id: str) -> Any:
        """The server's records of an RM, without counters."""
        return digest(self.site.scheduler, rm_id)

    def touch(self, rm: WireRm) -> None:
        """Note that the RM acts, so that its records may change."""
        self._touched.add(rm.rm_id)

    # ---- Idle states ----

    def settle(self, order: Sequence[str] = KINDS) -> None:
        """Deliver and answer all messages in flight; then ledgers and records must agree."""
        for _ in range(MAX_EXCHANGES):
            for rm in self.rms:
                rm.connection.flow(order)
            self.site.rest()
            self.site.check()
            # All RMs process answers, and acknowledge them.
            heard = [rm.listen() for rm in self.rms]
            for rm in self.rms:
                rm.connection.acknowledge()
            if not any(heard) and all(rm.connection.is_quiet() for rm in self.rms):
                break
        else:
            raise Violation("they never come to rest")
        for rm in self.rms:
            if rm.connection.is_whole:
                self._check_outbox(rm)
                rm.settle(books_of(self.site.scheduler, rm.rm_id))
        self._check_neighbours()

    def _check_outbox(self, rm: WireRm) -> None:
        """S3: all effects were sent and received."""
        known = self.site.rms.find(rm.rm_id)
        left = known.outbox.messages if known is not None else 0
        if left:
            raise Violation(f"S3: {left} messages for {rm.rm_id} are left though it listens")

    def _check_neighbours(self) -> None:
        """R1: the state of an inactive RM is unchanged."""
        for rm in self.rms:
            now = self.digest(rm.rm_id)
            if rm.rm_id not in self._touched and now != self._digests[rm.rm_id]:
                raise Violation(f"R1: {rm.rm_id} did nothing\n{self._digests[rm.rm_id]}\n{now}")
            self._digests[rm.rm_id] = now
        self._touched.clear()

    def advance(self, seconds: float, *, late: bool) -> None:
        """Let time pass for everybody."""
        self.script.append(f"{seconds} s pass{', unnoticed' if late else ''}")
        self._touched.update(RM_IDS)
        for rm in self.rms:
            if rm.connection.talk is not None:
                rm.connection.talk.pass_time()
        self.site.advance(seconds, late=late)
        self.site.check()

    # ---- Connections ----

    def connect(self, rm: WireRm, *, again: bool = False) -> None:
        """Open closed streams; `again` repeats messages that may be lost."""
        if rm.connection.is_whole:
            return
        self.touch(rm)
        belief = believed(rm.ledger)
        if not rm.ledger.is_registered:
            self.restart(rm, rm.config, session=bool(rm.connection.instance))
        elif rm.connection.has_session:
            if not rm.resume():
                self.replay(rm, belief)
        else:
            status = rm.connection.open_streams()
            if status.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
                self.restart(rm, rm.config, session=False)
            elif status != OK:
                raise Violation(f"{rm.rm_id} cannot open its streams: {status}")
            elif again:
                rm.say_again()

    def restart(self, rm: WireRm, config: Config, *, session: bool, is_asked: bool = False) -> Books:
        """Restart the RM's process, which registers; return its belief for a replay."""
        self.touch(rm)
        belief = believed(rm.ledger)
        rm.connection.forget()
        status = rm.begin_session(config, is_asked=is_asked) if session else rm.register(config)
        if status == OK and not session:
            status = rm.connection.open_streams()
        if status != OK:
            raise Violation(f"{rm.rm_id} cannot register: {status}")
        return belief

    # ---- Replays ----

    def replay(
        self,
        rm: WireRm,
        belief: Books,
        *,
        seed: int = 0,
        stop: int | None = None,
        miscounted: bool = False,
    ) -> None:
        """Replay the belief in a random legal order, or only its first `stop` messages."""
        rng = Random(seed)
        phases = replay_of(belief, rm.config, rng)
        if rm.connection.has_session:
            rm.begin_replay()
        messages = [
            (kind, items[begin : begin + 2]) for kind, items in phases for begin in range(0, len(items), 2)
        ]
        for kind, items in messages[:stop]:
            if not rm.connection.has_session and kind is not messages[0][0]:
                # Streams have no common order, so earlier messages must be processed first.
                self.site_takes_all(rm)
            rm.say(kind, items)
        if stop is None and rm.connection.has_session:
            rm.end_replay(miscounted=miscounted)
        if stop is None:
            self.settle()
            check_replayed(phases, books_of(self.site.scheduler, rm.rm_id))

    def site_takes_all(self, rm: WireRm) -> None:
        """Deliver and process the messages of the RM."""
        rm.connection.flow(KINDS)
        self.site.rest()


def replay_of(belief: Books, config: Config, rng: Random) -> list[tuple[str, list[Item]]]:
    """Nodes, applications, then allocations and asks, each shuffled, as any order is legal."""
    there = config.partitions
    nodes: list[Item] = [
        NodeItem(node_id, "CREATE" if at.schedulable else "CREATE_DRAIN", at.size, home(node_id))
        for node_id, at in belief.nodes.items()
        if home(node_id) in there
    ]
    running = {app_id for (app_id, _), held in belief.keys.items() if held.node_id}
    apps: list[Item] = [
        AppItem(app_id, partition=home(app_id), forced=app_id in running)
        for app_id in belief.apps
        if home(app_id) in there
    ]
    asks: list[Item] = [
        AskItem(
            key,
            app_id,
            held.size,
            held.node_id,
            held.priority,
            held.required,
            home(app_id),
            placeholder=held.placeholder,
        )
        for (app_id, key), held in belief.keys.items()
        if home(app_id) in there
    ]
    asks += [AskItem(key, "", at.size, at.node_id, foreign=True) for key, at in belief.foreign.items()]
    for items in (nodes, apps, asks):
        rng.shuffle(items)
    return [(NODES, nodes), (APPLICATIONS, apps), (ALLOCATIONS, asks)]


def check_replayed(phases: list[tuple[str, list[Item]]], books: Books) -> None:
    """R2, R3: allocations are accepted in spite of limits, and all pending asks wait or run."""
    said = [item for _, items in phases for item in items]
    if any(isinstance(item, AskItem) and item.huge for item in said):
        return
    for item in said:
        match item:
            case NodeItem():
                kept = item.node_id in books.nodes
            case AppItem():
                kept = item.app_id in books.apps or not item.forced
            case AskItem(foreign=True):
                kept = item.key in books.foreign
            case AskItem():
                held = books.keys.get((item.app_id, item.key))
                waits = item.app_id not in books.apps
                kept = waits or (held is not None and item.node_id in ("", held.node_id))
            case _:
                kept = True
        if not kept:
            raise Violation(f"R3: {item!r} was lost in a replay")
