"""Plays a script to core and oracle, which have to agree on everything."""

from collections.abc import Iterable, Sequence

from licorne_core.extensions.autoscaler.messages import ContainerStatesChanged
from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.extensions.backfill.planned_starts import StartRequest
from licorne_core.extensions.budgets.messages import SetBudgets
from licorne_core.extensions.budgets.shared import budgets_of
from licorne_core.messages.commands import Command, NotePredicatesSent, OfNoRm, Tick
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsReleased,
    Effect,
    PredicatesAsked,
    PreemptionsAsked,
)
from licorne_core.partitions.partition import Partition
from licorne_core.standard.predicates.owed import MAX_ASSUMED, MAX_ASSUMED_IN_SILENCE
from licorne_core.values.ids import AppId, PartitionName
from licorne_core.values.slices import Tuning
from support.core.driver import Driver, placed, released
from support.oracle import Made, Oracle, Released
from support.oracle.backfill import Hold, StartQuestion, Unplanned, holders
from support.oracle.checks import exceeds_cluster_only, is_behind
from support.oracle.deciding import Outcome, Search, Waits
from support.oracle.doing import carry_out
from support.oracle.held import is_due_by_time
from support.oracle.reserving import GiveUp
from support.oracle.turns import (
    SEARCH_INTERVAL,
    begin_turn,
    end_turn,
    keep_room,
    look_at,
    mark_attempted,
    mark_looked,
    mark_searches,
    mark_unplanned,
    mark_waits,
    note_gangs,
    peek,
    send_to_rest,
)
from support.worlds.books import (
    books_of_core,
    books_of_oracle,
    differences,
    end_of_back_off,
    kind_of,
    order_of_core,
    order_of_oracle,
    paused_by,
    pauses,
    unseen,
    unseen_by_oracle,
)
from support.worlds.playing import REST, TURN, Players, Step

SWEEP = 7
"""The number of commands after which the core checks its sums; the oracle is compared after each."""


class Disagreement(AssertionError):
    """Core and oracle differ; the text names the step."""


def compare(
    script: Sequence[Step],
    tuning: Tuning | None = None,
    *,
    reserving: bool = True,
    most_assumed: tuple[int, int] = (MAX_ASSUMED, MAX_ASSUMED_IN_SILENCE),
) -> int:
    """Play the script to both; return the number of compared decisions.

    Without `reserving` neither reserves nodes. `most_assumed` is the maximum of asks that wait for answers of
    an RM, and that for a silent one; a core with other numbers needs them in `tuning`.

    Raises:
        Disagreement: Core and oracle differ.
    """
    driver = Driver(tuning=tuning, reservations=reserving, sweep=SWEEP, writes=False)
    pair = _Pair(driver, Oracle(reserving=reserving, most_assumed=most_assumed))
    for number, (now, command) in enumerate(script):
        pair.driver.now = now
        try:
            pair.hear_answers()
            if command is REST:
                pair.rest()
            elif isinstance(command, SetBudgets):
                pair.change_budgets(command)
            else:
                pair.hand_in(command)
        except AssertionError as error:
            raise Disagreement(f"step {number}, {command}: {error}") from error
    return pair.decisions


class _Pair:
    """A core and an oracle that receive the same commands."""

    def __init__(self, driver: Driver, oracle: Oracle) -> None:
        self.driver = driver
        self.oracle = oracle
        self.players = Players(driver)
        self.unwritten: list[NotePredicatesSent] = []
        self.decisions = 0

    def hand_in(self, command: Command) -> None:
        """Process one command in both; after a Tick the oracle makes the expected decisions."""
        partitions = self.driver.scheduler.partitions
        turns = {name: partition.counters.turns for name, partition in partitions.items()}
        effects = self.players.send(command)
        asked = [effect for effect in effects if isinstance(effect, PredicatesAsked | PreemptionsAsked)]
        self.unwritten += [
            NotePredicatesSent(rm_id=effect.rm_id, check=effect.checks[-1].check) for effect in asked
        ]
        self.oracle.handle(command, self.driver.now, asked)
        for name, theirs in self.oracle.partitions.items():
            core = PartitionName(name)
            made, told = _made(effects, name), list(theirs.made)
            assert made[: len(told)] == told, f"in {name} the core tells {made}, oracle {told}"
            if isinstance(command, Tick) and partitions[core].counters.turns > turns[core]:
                self._follow(name, made[len(told) :], command.decisions)
            else:
                assert len(made) == len(told), f"in {name} the core also tells {made}"
            ended = _released(effects, name)
            assert ended == theirs.released, (
                f"in {name} the core tells {ended} to end, oracle {theirs.released}"
            )
        for name, waiting in self.oracle.waiting.items():
            told_of = _waiting(effects, name)
            # In a full cluster an ask that also exceeds a maximum may be tried or not, which has no effect.
            assert told_of == sorted(waiting) or self.oracle.partitions[name].was_full, (
                f"in {name} core says {told_of} wait, oracle {sorted(waiting)}"
            )
        for name, theirs in self.oracle.partitions.items():
            said = [*theirs.checks.said, *theirs.judging.said]
            assert not said, f"in {name} the core also asks {said}"
            noted = partitions[PartitionName(name)].nodes.lacked
            note_gangs(theirs, is_first=not noted)
            whole = {grouping for one in noted for grouping in one.groupings}
            assert whole <= theirs.may_be_whole, f"in {name} the core keeps {whole} whole, oracle less"
        names = self._concerned(command)
        if not self._is_counting:
            self._compare_books(names)

    def change_budgets(self, command: SetBudgets) -> None:
        """Change budgets in both; nothing is decided until the core has counted all members.

        The oracle counts at once, whereas the core counts members in turns. Until then a member has no bound,
        and slices follow with the ticks. So work that is due is done first.
        """
        self.hand_in(Tick(decisions=0))
        self.hand_in(command)
        for _ in range(1000):
            if not self._is_counting:
                return
            self.hand_in(Tick(decisions=0))
        raise AssertionError("the core never ends the count")

    @property
    def _is_counting(self) -> bool:
        # No view shows this for empty budgets.
        return budgets_of(self.driver.scheduler._registry.core).counting is not None

    def _concerned(self, command: Command) -> list[PartitionName]:
        """The partitions that the command may have changed; time may change all of them."""
        rm_id = None if isinstance(command, OfNoRm) else command.rm_id
        partitions = self.driver.scheduler.partitions.values()
        names = [known.name for known in partitions if rm_id in (None, known.rm_id)]
        assert len(partitions) == len(self.oracle.partitions), f"partitions {sorted(names)}"
        return names

    def hear_answers(self) -> bool:
        """Write checks, and send the RMs' answers that are due; return whether there were any.

        RMs also confirm requested stops, and change the sizes of asks.
        """
        written, self.unwritten = self.unwritten, []
        due = self.players.due()
        for command in (*written, *due):
            self.hand_in(command)
        return bool(written or due)

    def rest(self) -> None:
        """Run the core until it is idle; then the oracle must have no work either."""
        for _ in range(1000):
            deadline = self.driver.scheduler.next_deadline()
            if deadline is not None and deadline <= self.driver.now:
                self.hand_in(Tick(decisions=TURN))
            elif not self.hear_answers():
                break
        else:
            raise AssertionError("the core never comes to rest")
        for name, partition in self.oracle.partitions.items():
            if self.oracle.runnable(name):
                begin_turn(partition)
                left = peek(partition, self.driver.now)
                if isinstance(left.decision, GiveUp) and not any(app.asks for app in partition.apps.values()):
                    # The core has no turn for this before the next ask or review.
                    continue
                if isinstance(left.decision, Hold | StartQuestion) and is_due_by_time(
                    partition.apps, left.decision
                ):
                    continue
                searches = left.searches if partition.nodes else []
                waits = left.decision or left.backing_off or searches
                assert not waits, f"{name} rests, though there is {left}"

    def _follow(self, name: str, made: list[Made], budget: int) -> None:
        """Let the oracle decide for the partition that had a turn, as often as the core did.

        Some decisions of the core have no visible effect: reservations and assumed asks; a question about a
        gang is visible as a check. The core makes `budget` decisions, or fewer if it finds no more, or ends a
        pass early because it is tired.
        """
        assert self.oracle.runnable(name), f"{name} is on hold"
        core = self.driver.scheduler.partitions[PartitionName(name)]
        theirs = self.oracle.partitions[name]
        theirs.packs = core.nodes.order.packs
        begin_turn(theirs)
        keep_room(theirs, self.driver.now)
        for _ in range(budget):
            asked = theirs.checks.said or theirs.judging.said
            if (
                not (made or asked)
                and core.effort.tired
                and unseen(core, self.driver.now) == unseen_by_oracle(theirs, self.driver.now)
            ):
                self._end_tired_turn(core)
                break
            outcome = self._pass(name)
            wanted = outcome.decision
            if wanted is None:
                ours, expected = order_of_core(core), order_of_oracle(look_at(theirs, self.driver.now))
                assert ours == expected, f"the order in {name}: core {ours}, oracle {expected}"
                # An application in a back-off does not wait for another turn.
                if not {*outcome.postponed} - {*outcome.backing_off}:
                    end_turn(theirs, self.driver.now)
                break
            told = carry_out(theirs, wanted, self.driver.now)
            for one in theirs.made[len(theirs.made) - told :]:
                got = made.pop(0) if made else None
                assert one == got, f"in {name} the core says {got}, oracle {wanted}"
            self.decisions += 1
        assert not made, f"in {name} the core also says {made}"
        self._note_held_asks(core)

    def _note_held_asks(self, core: Partition) -> None:
        """Note whether the core has tried asks for which the cluster is full, and that would delay a start.

        It does not try an ask again that a start stopped before the cluster was full.
        """
        theirs = self.oracle.partitions[core.name]
        look = look_at(theirs, self.driver.now)
        for app in theirs.apps.values() if holders(theirs.apps) else ():
            groups = {kind_of(group): group for group in core.applications[AppId(app.app_id)].groups.values()}
            for ask in app.awake():
                if exceeds_cluster_only(look, app, ask) and is_behind(look, app, ask):
                    group = groups[ask.kind]
                    ask.attempted = group.attempted
                    (app.nowhere.add if group.nowhere or group.no_place else app.nowhere.discard)(ask.kind)

    def _pass(self, name: str) -> Outcome:
        """One pass of the oracle, with all records of the pass."""
        partition = self.oracle.partitions[name]
        outcome = peek(partition, self.driver.now)
        mark_attempted(partition, outcome)
        mark_unplanned(partition, outcome)
        mark_looked(partition, outcome.looked, self.driver.now)
        mark_searches(partition, outcome.searches, self.driver.now)
        mark_waits(partition, outcome.waits)
        for app_id in outcome.backing_off:
            send_to_rest(partition, app_id, self.driver.now)
        return outcome

    def _end_tired_turn(self, core: Partition) -> None:
        """Follow a core that has processed only some of a pass: its first back-offs, and some searches."""
        theirs = self.oracle.partitions[core.name]
        outcome = peek(theirs, self.driver.now)
        for app_id, asks in outcome.attempted.items():
            groups = core.applications[AppId(app_id)].groups.values()
            nowhere = {kind_of(group): group.nowhere or group.no_place for group in groups if group.attempted}
            looked_at = [ask for ask in asks if ask.kind in nowhere]
            mark_attempted(
                theirs,
                outcome._replace(attempted={app_id: looked_at}, nowhere={app_id: nowhere}),
            )
        shadows = starts_of(core).shadows
        looked = {
            (str(one.app.app_id), str(one.request.key))
            for one in shadows
            if one.looked_at == self.driver.now and one.changes_read == shadows.budget.changes
        }
        found = [name for name in outcome.looked if name in looked]
        mark_looked(theirs, found, self.driver.now)
        unplanned = [one for one in outcome.unplanned if _is_unplanned(core, one)]
        mark_unplanned(theirs, outcome._replace(unplanned=unplanned))
        for search in outcome.searches:
            if search.kind not in pauses(core.applications[AppId(search.app_id)]):
                # The core has searched, so its wait is over.
                theirs.apps[search.app_id].wish(search.kind).waits_for = None
        mark_searches(theirs, self._searches(core, outcome), self.driver.now)
        mark_waits(theirs, [one for one in outcome.waits if _waits_too(core, one)])
        for app_id in outcome.backing_off:
            if end_of_back_off(core, core.applications[AppId(app_id)]) <= self.driver.now:
                break
            send_to_rest(theirs, app_id, self.driver.now)

    def _searches(self, core: Partition, outcome: Outcome) -> list[Search]:
        """The failed searches of a core that ended its turn early."""
        end = self.driver.now + SEARCH_INTERVAL
        return [one for one in outcome.searches if one.in_vain and paused_by(core, one) == end]

    def _compare_books(self, names: list[PartitionName]) -> None:
        """Check that both have the same state."""
        for name in names:
            ours = books_of_core(self.driver.scheduler.partitions[name], self.driver.now)
            theirs = books_of_oracle(self.oracle.partitions[name], self.driver.now)
            for what, value in ours.items():
                assert value == theirs[what], f"{name} {what}: {differences(value, theirs[what])}"


def _made(effects: Iterable[Effect], name: str) -> list[Made]:
    """The allocations of one partition that are sent to the RM, in order."""
    made = [e for e in effects if isinstance(e, AllocationsMade) and e.partition == name]
    return [Made(*told) for told in placed(made)]


def _released(effects: Iterable[Effect], name: str) -> list[Released]:
    """The ends and requests to end of one partition, in order."""
    ended = [e for e in effects if isinstance(e, AllocationsReleased) and e.partition == name]
    return [Released(*told) for told in released(ended)]


def _waiting(effects: Iterable[Effect], name: str) -> list[tuple[str, str]]:
    """The asks of one partition reported to an autoscaler; their order does not matter."""
    return sorted(
        (state.app_id, state.key)
        for effect in effects
        if isinstance(effect, ContainerStatesChanged) and effect.partition == name
        for state in effect.states
    )


def _is_unplanned(core: Partition, one: Unplanned) -> bool:
    """True if a core that ended its turn early has found no start for the asks."""
    groups = core.applications[AppId(one.app_id)].groups.values()
    return any(
        StartRequest in group.remedy_requests
        and group.remedy_requests[StartRequest].paused_until == one.until
        for group in groups
        if kind_of(group) == one.kind
    )


def _waits_too(core: Partition, one: Waits) -> bool:
    """True if a core that ended its turn early has reached the asks that wait for reserved nodes."""
    return pauses(core.applications[AppId(one.app_id)]).get(one.kind) == one.until
