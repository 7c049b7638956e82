"""Inputs of RMs, carried over into a run that differs from the live one.

The workload stays the same: applications and asks arrive at their times, and an allocation runs for as long
as in the live run (`acting.py`). An application that its RM has removed, or released as a whole, ends after
its allocations in this run. After a restart an RM reports the allocations that it has in this run. Acts of
operators, nodes and budgets are unchanged.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Final

from licorne_core.messages.commands import (
    CONFIRMED,
    AnswerPredicates,
    AnswerPreemptions,
    BeginReplay,
    Command,
    EndReplay,
    ExtensionAnswer,
    LargeCommand,
    NewApplication,
    NotePredicatesSent,
    OfNoRm,
    RegisterRm,
    ReleaseRequest,
    RemoveRm,
    TerminationType,
    Tick,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.messages.effects import (
    AskedCheck,
    AskedPreemption,
    Effect,
    PredicatesAsked,
    PreemptionsAsked,
    Unfinished,
)
from licorne_core.values.asks import Ask
from licorne_core.values.ids import RmId, rm_of
from licorne_server.lab.simulation.acting import Acting, AppPlace, Carried
from licorne_server.lab.simulation.lives import End, Lives, Place
from licorne_server.lab.simulation.player import Player
from licorne_server.wire.features import table

LATE: Final = 10.0
"""Seconds after its registration at which an RM that does not replay counts as having reported everything."""

SPARE: Final = 1_000
"""Number of applications that may be retained beyond twice the number of present ones."""

_ANSWERS = AnswerPredicates | AnswerPreemptions
_LEFT_OUT = table("NOT_CARRIED")
"""Names and numbers of answers to extensions. They are left out, because this core may decide differently."""
_BY_CORE = _ANSWERS | NotePredicatesSent | Tick
"""Inputs that follow from decisions of the core."""


class Carrying:
    """Carries the inputs of RMs over: `note` records inputs before `begin`, `give` adapts later inputs."""

    def __init__(self, player: Player, lives: Lives) -> None:
        """Begin with a player whose core has had no input."""
        self._player = player
        self._views = player.scheduler.views
        self._lives = lives
        self._acting = Acting(player, lives, self._end_if_over)
        self._new: dict[AppPlace, NewApplication] = {}
        # Applications that their RMs have ended, each with the command.
        self._over: dict[AppPlace, Command] = {}
        # By RM: the start of its replay, and the allocations that it has not reported yet.
        self._untold: dict[RmId, tuple[float, dict[Place, None]]] = {}
        # By RM: the numbers of nodes, applications and allocations that it has reported.
        self._told: dict[RmId, list[int]] = {}
        self._open: dict[tuple[RmId, int], AskedCheck | AskedPreemption] = {}
        self._begun: dict[RmId, Command] = {}
        self._rests: dict[RmId, Command] = {}

    @property
    def carried(self) -> Carried:
        """Numbers of inputs so far."""
        return self._acting.carried

    def note(self, command: Command, effects: Sequence[Effect]) -> None:
        """Record a command that was handled as in the live run."""
        self._remember(command)
        self.carried.inputs += 1
        if isinstance(command, _ANSWERS):
            for answer in command.answers:
                self._open.pop((command.rm_id, answer.check), None)
        elif isinstance(command, RegisterRm | RemoveRm):
            self._open = {key: one for key, one in self._open.items() if key[0] != command.rm_id}
        for effect in effects:
            if isinstance(effect, PredicatesAsked | PreemptionsAsked):
                self._open |= {(effect.rm_id, check.check): check for check in effect.checks}
        if isinstance(command, LargeCommand):
            self._begun[command.rm_id] = command
            last = effects[-1] if effects else None
            if isinstance(last, Unfinished):
                self._rests[last.rm_id] = last.rest
            else:
                self._rests.pop(command.rm_id, None)

    def begin(self) -> None:
        """Begin to diverge from the journal: running allocations and open checks are copied from the core."""
        acting = self._acting
        for partition in self._views.partitions_made():
            for app_id in self._views.app_ids(partition):
                for request in self._views.requests(partition, app_id):
                    place = (partition, app_id, request.ask.key)
                    allocation = request.allocation
                    if allocation is None or request.is_ask:
                        continue
                    placed = allocation.allocation_time
                    if request.ask.node_id:
                        # The RM has reported this allocation: again, or without a placement by the core.
                        life = self._lives.find(place)
                        if life is None:
                            continue
                        placed = life.placed
                    acting.runs(place, request.ask, allocation.node_id, placed)
                    if request.stop is not None:
                        acting.confirm(place, request.stop)
        for (rm_id, _), check in self._open.items():
            acting.answer(rm_id, [check])
        for rest in self._rests.values():
            acting.feed(rest)

    def advance(self, until: float) -> None:
        """Run all turns and acts of RMs up to a time, in unix seconds."""
        self._acting.advance(until)

    def give(self, command: Command) -> None:
        """Carry over a recorded input, at the player's current time."""
        if not isinstance(command, OfNoRm):
            rm_id = command.rm_id
            if isinstance(command, LargeCommand):
                if self._begun.get(rm_id) is command:
                    # The command was already handled completely.
                    return
                self._begun[rm_id] = command
            since, _ = self._untold.get(rm_id, (inf, None))
            if rm_id not in self._told and self._player.now > since + LATE:
                self._tell_rest(rm_id)
        if isinstance(command, _BY_CORE):
            return
        if isinstance(command, ExtensionAnswer):
            self._acting.leave_out(*_LEFT_OUT[type(command)](command))
            return
        self.carried.inputs += 1
        match command:
            case RegisterRm() | RemoveRm():
                self._restart(command)
            case EndReplay():
                self._end_replay(command)
            case UpdateApplications():
                self._applications(command)
            case UpdateAllocations():
                self._allocations(command)
            case _:
                self.feed(command)

    def feed(self, command: Command) -> None:
        """Handle a command unchanged."""
        self._remember(command)
        self._acting.feed(command)

    def _remember(self, command: Command) -> None:
        """Record applications, and count the items that an RM reports again."""
        match command:
            case BeginReplay():
                self._told[command.rm_id] = [0, 0, 0]
            case UpdateNodes():
                self._count(command.rm_id, 0, len(command.nodes))
            case UpdateApplications():
                self._count(command.rm_id, 1, len(command.new))
                self._remember_applications(command)
            case UpdateAllocations():
                self._count(command.rm_id, 2, len(command.asks))

    def _count(self, rm_id: RmId, what: int, number: int) -> None:
        if rm_id in self._told:
            self._told[rm_id][what] += number

    def _remember_applications(self, command: UpdateApplications) -> None:
        for new in command.new:
            partition = self._views.partition_meant(command.rm_id, new.partition)
            if partition is not None:
                self._new[partition, new.app_id] = new
        present = {name: self._views.app_ids(name) for name in self._views.partitions_made()}
        if len(self._new) > 2 * sum(map(len, present.values())) + SPARE:
            self._new = {of: new for of, new in self._new.items() if of[1] in present.get(of[0], ())}

    # Acts of RMs in the live run.

    def _applications(self, command: UpdateApplications) -> None:
        if command.new:
            self.feed(replace(command, remove=()))
        for removal in command.remove:
            partition = self._views.partition_meant(command.rm_id, removal.partition)
            if partition is not None:
                self._end((partition, removal.app_id), replace(command, new=(), remove=(removal,)))

    def _allocations(self, command: UpdateAllocations) -> None:
        asks = [ask for ask in (self._ask(command.rm_id, one) for one in command.asks) if ask is not None]
        if asks:
            self.feed(replace(command, asks=asks, releases=()))
        kept: list[ReleaseRequest] = []
        for release in command.releases:
            partition = self._views.partition_meant(command.rm_id, release.partition)
            if partition is None or not release.app_id:
                kept.append(release)
            elif not release.key:
                of = (partition, release.app_id)
                self._end(of, replace(command, asks=(), releases=(release,)))
            elif self._takes_back((partition, release.app_id, release.key), release):
                kept.append(release)
        if kept:
            self.feed(replace(command, asks=(), releases=kept))

    def _ask(self, rm_id: RmId, ask: Ask) -> Ask | None:
        """An ask in its state in this run: on its node, or waiting; None if the ask has ended."""
        partition = self._views.partition_meant(rm_id, ask.partition)
        if partition is None or not ask.app_id:
            return ask
        place = (partition, ask.app_id, ask.key)
        if rm_id in self._untold:
            self._untold[rm_id][1].pop(place, None)
        run = self._acting.running.get(place[:2], {}).get(ask.key)
        if run is not None:
            is_known = self._views.request(*place) is not None
            return ask if is_known and not ask.node_id else replace(ask, node_id=run.node_id)
        if ask.key in self._acting.early.get(place[:2], ()):
            return None
        if ask.node_id and self._lives.find(place) is not None:
            return replace(ask, node_id=None)
        return ask

    def _takes_back(self, place: Place, release: ReleaseRequest) -> bool:
        """True for a release by which the RM withdraws an ask; such a release keeps its time."""
        if release.termination is TerminationType.SCHEDULING_FAILED_ON_RM:
            self._acting.leave_out("allocations that an RM could not run")
            return False
        was_early = self._acting.was_early(place)
        if release.termination in CONFIRMED or was_early or self._lives.find(place) is not None:
            return False
        self._acting.ends(place)
        return True

    def _end(self, of: AppPlace, command: Command) -> None:
        """End an application for its RM: now, or once its work is done."""
        gone = [
            ReleaseRequest(app_id=of[1], key=request.ask.key, partition=of[0])
            for request in self._views.requests(*of)
            if request.is_pending and self._lives.find((*of, request.ask.key)) is None
        ]
        if gone:
            self.feed(UpdateAllocations(rm_id=rm_of(of[0]), releases=gone))
        self._over[of] = command
        self._end_if_over(of)

    def _end_if_over(self, of: AppPlace) -> None:
        command = self._over.get(of)
        if command is None:
            return
        if of[1] in self._views.app_ids(of[0]):
            running = self._acting.running.get(of, {})
            if any(run.end < inf for run in running.values()):
                return
            if any(one.is_ask and not one.ask.placeholder for one in self._views.requests(*of)):
                return
        del self._over[of]
        self._acting.forget(of)
        self.feed(command)

    # Restarts.

    def _restart(self, command: RegisterRm | RemoveRm) -> None:
        """Restart an RM: the core drops its books, but the RM still has its allocations."""
        rm_id = command.rm_id
        self._told.pop(rm_id, None)
        places = self._acting.restart(rm_id)
        if isinstance(command, RegisterRm):
            self._untold[rm_id] = (self._player.now, dict.fromkeys(places))
        else:
            for place in places:
                self._acting.ends(place)
        self.feed(command)

    def _end_replay(self, command: EndReplay) -> None:
        self._tell_rest(command.rm_id)
        told = self._told.pop(command.rm_id, None)
        if told is not None:
            nodes, applications, allocations = told
            command = replace(command, nodes=nodes, applications=applications, allocations=allocations)
        self.feed(command)

    def _tell_rest(self, rm_id: RmId) -> None:
        """Report allocations that run only in this run, and end those that only the live run has lost."""
        now = self._player.now
        _, places = self._untold.pop(rm_id, (now, {}))
        present = frozenset(self._views.partition_names(rm_id))
        for place in places:
            life = self._lives.find(place)
            new = self._new.get(place[:2])
            run = self._acting.running.get(place[:2], {}).get(place[2])
            had_ended = life is not None and life.end is not End.RUNS and life.ended <= now
            if run is None:
                continue
            if not had_ended or new is None or place[0] not in present:
                self._acting.ends(place)
                self._acting.leave_out("allocations that an RM did not have after a restart")
                continue
            if place[1] not in self._views.app_ids(place[0]):
                self.feed(UpdateApplications(rm_id=rm_id, new=[new]))
            self.feed(UpdateAllocations(rm_id=rm_id, asks=[replace(run.ask, node_id=run.node_id)]))
