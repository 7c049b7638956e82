"""Draws a world: RMs, partitions, queues, and a long script of events."""

from random import Random

from licorne_core.messages.commands import Command, RemoveRm, Tick
from licorne_core.values.ids import RmId
from support.core.driver import START
from support.worlds.backfill import SHARE, BackfillMaker
from support.worlds.budgets import BUDGETS, BudgetMaker
from support.worlds.configs import give_notices, want_shares
from support.worlds.cordons import CordonMaker
from support.worlds.elastic import SHARE as ELASTIC
from support.worlds.elastic import ElasticMaker
from support.worlds.operators import OperatorMaker
from support.worlds.playing import REST, Step
from support.worlds.rms import RmMaker

PAUSES = [0.001, 0.7, 1.0, 2.5, 2.5, 5.0, 6.0, 31.0, 301.0, 3601.0]
"""Seconds that pass at a time: beyond reservation ages, silence, back-offs, starts and leases."""

GANGS = [0.0, 0.1, 0.3, 0.5]
"""Shares of applications that are gangs."""

PREEMPTING = [0.0, 0.0, 0.3, 0.9]
"""Shares of asks that may preempt others."""

TOPOLOGY = 0.2
"""Share of worlds with topology domains."""


class World:
    """A script of steps that is drawn from a seed, always the same for the same seed."""

    def __init__(
        self,
        seed: int,
        length: int = 40,
        *,
        hides: bool = True,
        gangs: float | None = None,
        preempting: float | None = None,
        budgets: float = BUDGETS,
        operators: bool = True,
        backfill: float = SHARE,
        shortest: float = 0.0,
        maxima: float = 0.0,
        gang_starts: bool = False,
        notices: bool = False,
        reclaims: bool = False,
        closes: bool = False,
        topology: bool | None = None,
        elastic: float = ELASTIC,
    ) -> None:
        """Draw the RMs, then `length` events or a few more.

        Without `hides` reloads never leave out anything. `gangs` is the share of applications that are gangs,
        `preempting` the share of asks that may preempt others; with None each RM draws its own. `budgets` is
        the share of worlds with budgets, by which RMs depend on each other. Without `operators` no operator
        acts on applications or nodes. `backfill` is the share of RMs with backfill, `shortest` the share of
        their configurations in which the shortest overtake first, and `maxima` the share of their queues with
        low maxima, which frequent reloads change. With `gang_starts` these RMs keep their gangs, which get
        planned starts; the oracle plans none of those. With `notices` most queues give notice of preemption,
        with `reclaims` most claim fair shares. With `closes` half of the leaves have opening hours. With
        `topology` there are topology domains, and gangs with terms; None means a fifth of the worlds.
        `elastic` is the share of gangs with placeholders that become elastic.
        """
        self.seed = seed
        self.rng = Random(seed)
        self.now = START
        # A random source of its own leaves the other draws of a seed unchanged.
        beside = Random(seed ^ 0x707010)
        has_domains = beside.random() < TOPOLOGY if topology is None else topology
        count = self.rng.choice([1, 1, 2, 3])
        self.rms = [
            RmMaker(
                self.rng,
                f"rm{i}",
                hides=hides,
                gangs=self.rng.choice(GANGS) if gangs is None else gangs,
                preempting=self.rng.choice(PREEMPTING) if preempting is None else preempting,
                topology=beside if has_domains else None,
            )
            for i in range(count)
        ]
        for rm in self.rms if notices else ():
            for maker in rm.settings.makers.values():
                give_notices(Random(f"{seed} notices of {rm.rm}"), maker.shape)
        for rm in self.rms if reclaims else ():
            for maker in rm.settings.makers.values():
                want_shares(Random(f"{seed} reclaims of {rm.rm}"), maker, maker.shape)
        for rm in self.rms if closes else ():
            for maker in rm.settings.makers.values():
                maker.closes = True
        self.steps: list[Step] = []
        self.budgets = BudgetMaker(seed, [rm.rm for rm in self.rms], budgets) if budgets else None
        self.operators = OperatorMaker(seed, self.rms) if operators else None
        self.backfill = BackfillMaker(
            seed, [rm.rm for rm in self.rms], backfill, gangs=gang_starts, shortest=shortest, maxima=maxima
        )
        self._reloads = maxima > 0
        self.elastic = ElasticMaker(seed, elastic)
        self.cordons = CordonMaker(seed, [rm.rm for rm in self.rms]) if operators else None
        if self.budgets is not None:
            self._add(*self.budgets.first())
        for rm in self.rms:
            self._add(rm.settings.registration())
            if rm.crowd.is_dense:
                self._add(*rm.crowd.opening(rm.fleet))
            self._add(rm.new_nodes())
            if self.rng.random() < rm.gangs.share:
                self._add(rm.new_nodes(), rm.new_nodes())
            self._add(rm.new_apps(self.now), rm.new_apps(self.now))
        while len(self.steps) < length:
            self._draw()
        self.steps.append(Step(self.now, REST))

    def _add(self, *commands: Command) -> None:
        for command in commands:
            elastic = self.elastic.marking(command)
            marked = elastic if self.cordons is None else self.cordons.marking(elastic, self.now)
            self.steps.append(Step(self.now, self.backfill.marking(marked)))

    def _draw(self) -> None:
        """One random event: a message of an RM, or time."""
        if self.budgets is not None:
            self._add(*self.budgets.maybe_others())
        if self.operators is not None:
            self._add(*self.operators.maybe(self.now))
        if self.cordons is not None:
            self._add(*self.cordons.maybe_act())
        dice = self.rng.random()
        rm = self.rng.choice(self.rms)
        if self._reloads and self.rng.random() < 0.1:
            self._add(rm.settings.reload())
            return
        # Gangs are drawn more often the more there are, because filling one takes many asks.
        if dice < 0.22 or self.rng.random() < 0.4 * rm.gangs.share:
            self._add(*self._asks_of(rm))
        elif self.rng.random() < 0.1 * rm.gangs.share:
            # The rest of a gang is removed once its application has been completing for a while.
            self._add(rm.gang_done(), Tick())
            self.now += self.rng.choice([1.0, 31.0])
            self._add(Tick())
        elif self.rng.random() < 0.2 * rm.crowd.share:
            self._add(*rm.crowd.rush(rm.settings.partition(), self.now, rm.draw))
            self.now += self.rng.choice([0.0, 0.7, 2.5, 16.0])
            self._add(Tick(decisions=self.rng.choice([1, 7, 256])))
        elif not rm.crowd.share and self.rng.random() < 0.04:
            self._fail_again(rm)
        elif dice < 0.45:
            self._add(Tick(decisions=self.rng.choice([1, 1, 2, 3, 7, 256])))
        elif dice < 0.55:
            self.steps.append(Step(self.now, REST))
        elif dice < 0.64:
            self.now += self.rng.choice(PAUSES)
            self._add(Tick(decisions=self.rng.choice([1, 7])))
        else:
            self._add(*self._rare(rm, dice))

    def _fail_again(self, rm: RmMaker) -> None:
        """Let the RM repeatedly fail to run some of its allocations."""
        failing = rm.failing()
        for _ in range(self.rng.choice([2, 4, 8])):
            self._add(failing, Tick(decisions=self.rng.choice([1, 7])))
            self.now += self.rng.choice([0.0, 0.5, 1.0, 2.0, 4.0, 61.0])
            self._add(Tick())

    def _asks_of(self, rm: RmMaker) -> list[Command]:
        """Asks of a gang, or of any application."""
        gang = self.rng.random() < min(2 * rm.gangs.share, 0.9)
        return (rm.gang_asks(self.now) if gang else []) or [rm.new_asks(self.now)]

    def _rare(self, rm: RmMaker, dice: float) -> list[Command]:
        """A rare message of an RM."""
        if dice < 0.72:
            return [rm.freed()]
        if dice < 0.79:
            return [rm.change_node()]
        if dice < 0.835:
            return [rm.new_nodes()]
        if dice < 0.89:
            return [rm.new_apps(self.now)]
        if dice < 0.92:
            return [rm.settings.reload()]
        if dice < 0.935:
            return [rm.drop_app()]
        if dice < 0.96:
            return [rm.foreign(), rm.foreign()]
        if dice < 0.975:
            return [rm.hold()]
        if dice < 0.985:
            return rm.replay(self.now)
        if dice < 0.995:
            return [rm.settings.registration(), rm.new_nodes(), rm.new_apps(self.now)]
        gone = RemoveRm(rm_id=RmId(rm.rm))
        return [gone] if dice < 0.997 else [gone, rm.settings.registration(), rm.new_nodes()]
