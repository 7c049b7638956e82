"""Room of victims under notice goes to their beneficiaries alone, whatever comes in between."""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

import pytest

from licorne_core.extensions.notice.messages import AnswerNotices, NoticeAnswer, NoticesGiven
from licorne_core.messages.commands import Command, TerminationType, Tick
from licorne_core.messages.effects import Effect
from licorne_core.values.ids import AllocationKey, AppId, RmId
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver, placed, released

NODES = 3
SIZE = 2
STEPS = 20
SWEEP = 20
"""Commands after which the core's books are added up."""
# An ask of two has two victims on a node, of which one may end long before the other.
OWNER = f"resources: {{guaranteed: {{vcore: {NODES * SIZE}}}}}, properties: {{preemption.delay: 5s}}"
OTHER = "properties: {priority.offset: '10'}"
GUEST = "properties: {preemption.notice: 60s}"
QUEUES = f"[{{name: guest, {GUEST}}}, {{name: other, {OTHER}}}, {{name: owner, {OWNER}}}]"


class Town:
    """Full nodes of guests; owners get the room of guests, and others want it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.driver = Driver(sweep=SWEEP)
        self.handed_over = 0
        self._homes = {f"g{number}": f"n{number // SIZE}" for number in range(NODES * SIZE)}
        self._taken = Counter[str]()
        """Amounts of the asks that were placed on a node."""
        self._victims: dict[str, str] = {}
        """Victims that run, each with its beneficiary while that waits."""
        self._number = 0
        self._sizes: dict[str, int] = {}
        self._waiting: list[str] = []
        self._told: list[str] = []
        self._promised: dict[str, str] = {}
        """Beneficiaries that wait, each with the node of its victim."""
        self.driver.do(register(config(QUEUES)))
        self.driver.do(nodes(*(node(f"n{number}", vcore=SIZE) for number in range(NODES))))
        self.driver.do(apps(*(app(name, f"root.{name}") for name in ("guest", "other", "owner"))))
        running = [ask("guest", key, on_node=home, vcore=1, policy="s") for key, home in self._homes.items()]
        self.driver.do(asks(*running))

    def play(self) -> None:
        """Random steps."""
        steps: list[Callable[[], Command | None]] = [
            self._owner,
            self._other,
            self._answer,
            self._confirm,
            self._guest_ends,
            self._withdraw,
        ]
        for _ in range(STEPS):
            for step in self.rng.choices(steps, (5, 3, 3, 3, 1, 1), k=self.rng.randint(1, 3)):
                command = step()
                if command is not None:
                    self._hear(self.driver.send(command))
            self._hear(self.driver.send(Tick(decisions=self.rng.choice((0, 1, 256)))))
            self._hear(self.driver.wait(self.rng.choice((0.0, 1.0, 5.0, 20.0, 61.0))))

    # Steps

    def _ask(self, app_id: str, policy: str) -> Command:
        self._number += 1
        key = f"{app_id}-{self._number}"
        self._sizes[key] = 1
        if app_id == "owner":
            self._waiting.append(key)
            self._sizes[key] = self.rng.randint(1, SIZE)
        return asks(ask(app_id, key, vcore=self._sizes[key], policy=policy))

    def _owner(self) -> Command:
        return self._ask("owner", "o")

    def _other(self) -> Command:
        return self._ask("other", "")

    def _answer(self) -> Command:
        later = self.rng.choice((0.0, 3.0, 30.0, 300.0))
        answer = NoticeAnswer(
            AppId("guest"), AllocationKey(f"g{self.rng.randrange(NODES * SIZE)}"), later=later
        )
        return AnswerNotices(rm_id=RmId(RM), answers=[answer])

    def _confirm(self) -> Command | None:
        if not self._told:
            return None
        key = self._told.pop(self.rng.randrange(len(self._told)))
        self._gone(key)
        return releases(release("guest", key, why=TerminationType.PREEMPTED_BY_SCHEDULER))

    def _guest_ends(self) -> Command | None:
        """A victim ends by itself before its deadline."""
        under = [key for key in self._victims if key not in self._told]
        if not under:
            return None
        key = self.rng.choice(under)
        self._gone(key)
        return releases(release("guest", key))

    def _withdraw(self) -> Command | None:
        if not self._waiting:
            return None
        key = self.rng.choice(self._waiting)
        self._served(key)
        return releases(release("owner", key))

    # What comes of them

    def _hear(self, effects: Iterable[Effect]) -> None:
        effects = list(effects)
        for _, key, home in placed(effects):
            self.handed_over += key in self._promised
            self._taken[home] += self._sizes[key]
            self._served(key)
            stay = [one for one, where in self._homes.items() if where == home and one not in self._victims]
            wait = [one for one, where in self._promised.items() if where == home]
            room = SIZE - self._taken[home] - len(stay)
            assert room >= sum(self._sizes[one] for one in wait), (
                f"{key} got the room on {home} that {wait} wait for"
            )
        self._told += [key for app_id, key, why, _ in released(effects) if (app_id, why) == STOPPED]
        for effect in effects:
            if isinstance(effect, NoticesGiven):
                for notice in effect.notices:
                    self._victims[notice.key] = notice.beneficiary_key
                    self._promised[notice.beneficiary_key] = self._homes[notice.key]
                for spared in effect.withdrawn:
                    self._promised.pop(self._victims.pop(spared.key, ""), None)

    def _served(self, key: str) -> None:
        """An ask waits no more: nothing is promised to it."""
        if key in self._waiting:
            self._waiting.remove(key)
        self._promised.pop(key, None)
        self._victims = {victim: one for victim, one in self._victims.items() if one != key}

    def _gone(self, key: str) -> None:
        """A guest runs no more."""
        del self._homes[key]
        self._victims.pop(key, None)


STOPPED = ("guest", TerminationType.PREEMPTED_BY_SCHEDULER.name)


@pytest.mark.worlds(first=5_100_000, one_in=6)
def test_the_room_of_a_victim_goes_to_its_beneficiary(part: range) -> None:
    """Victims answer, end early or late, and others ask: none but the beneficiary gets the room."""
    handed_over = 0
    for seed in part:
        town = Town(seed)
        try:
            town.play()
        except AssertionError as error:
            pytest.fail(f"seed {seed}: {error}")
        handed_over += town.handed_over
    assert handed_over >= len(part)
