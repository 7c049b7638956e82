"""Members with clocks of their own, hanging calls or lost answers, and RMs that move."""

import asyncio
from contextlib import suppress
from random import Random

import pytest

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.kubernetes import KubernetesStore
from licorne_server.store.coordination.kubernetes.objects import read_rm_lease
from licorne_server.store.coordination.store import LeaseLost, MemberId, Ownership
from licorne_server.store.documents.documents import StoreError
from support.coordination.api_server import ApiServer
from support.coordination.backends import member, rm
from support.coordination.kubernetes import HandClock, KubernetesBackend

LEASE = 15.0
MARGIN = LEASE * 2 / 3
RMS = [rm("one"), rm("two"), rm("three")]
STEPS = 150


class Player:
    """A member that claims RMs, and stops by its own clock."""

    def __init__(self, number: int, store: KubernetesStore, clock: HandClock, draw: Random) -> None:
        """Create a member that has not joined."""
        self.store = store
        self.clock = clock
        self.rate = draw.uniform(0.98, 1.02)
        self.sleeps_until = 0
        self.owned: dict[RmId, Ownership] = {}
        self.taken = 0
        self.doing: asyncio.Task[None] | None = None
        self.renewing: asyncio.Task[None] | None = None
        self._number = number
        self._runs = 0
        self._joined = False
        self._good = 0.0

    @property
    def id(self) -> MemberId:
        """The id of the present run."""
        return MemberId(f"{self._number}-{self._runs}")

    def decides(self, rm_id: RmId) -> bool:
        """True if it is the owner in its view, and its last successful renewal is recent."""
        return self._joined and rm_id in self.owned and self.clock.now < self._good + MARGIN

    async def renew(self) -> None:
        """Renew, or join under the next id. A renewal counts from its sending."""
        sent = self.clock.now
        with suppress(StoreError):
            try:
                if self._joined:
                    await self.store.renew(member(self.id))
                else:
                    await self.store.join(member(self.id))
                self._good, self._joined = sent, True
            except LeaseLost:
                self._joined = False
                self._runs += 1
                self.owned.clear()

    async def act(self, api: ApiServer, draw: Random) -> None:
        """Claim an RM, or release one of its own."""
        rm_id, run = draw.choice(RMS), self._runs
        found = [item for (_, name), item in api.cluster.objects.items() if f".rm.{rm_id}." in name]
        seen = read_rm_lease(found[0]) if found else None
        with suppress(StoreError):
            if rm_id in self.owned:
                if draw.random() < 0.1:
                    await self.store.release(self.owned.pop(rm_id))
                return
            claimed = await self.store.claim(rm_id, self.id, seen, 0)
            if run == self._runs:
                self.owned[rm_id] = claimed
                self.taken += 1


def disturb(api: ApiServer, draw: Random) -> asyncio.Event | None:
    """Let the next write fail, lose its answer, or hang until the event is set."""
    kind = draw.choice(["cut", "lost", "failed", "held"])
    verb = draw.choice(["update", "update", "create", "get"])
    if kind == "held":
        event = asyncio.Event()
        api.fail(verb, "leases", hold=event)
        return event
    status = 0 if kind == "cut" else 500
    api.fail(verb, "leases", cut=kind == "cut", carried_out=kind != "failed", status=status)
    return None


async def step(players: list[Player], api: ApiServer, draw: Random, number: int) -> None:
    """Advance the time, and let every member that is not paused act."""
    passed = draw.uniform(0.5, 3)
    for player in players:
        player.clock.now += passed * player.rate
        if draw.random() < 0.04:
            # Pause the member, for less or for more than a lease.
            player.sleeps_until = number + draw.randint(2, 20)
        if player.sleeps_until > number:
            continue
        if player.renewing is None or player.renewing.done():
            player.renewing = asyncio.create_task(player.renew())
        if player.doing is None or player.doing.done():
            player.doing = asyncio.create_task(player.act(api, draw))
    tasks = [task for one in players for task in (one.doing, one.renewing) if task is not None]
    await asyncio.wait(tasks, timeout=0.02)


def check(players: list[Player]) -> None:
    """Check that no RM has two deciding members."""
    for rm_id in RMS:
        deciding = [player.id for player in players if player.decides(rm_id)]
        assert len(deciding) <= 1, f"{rm_id} is served by {deciding}"


@pytest.mark.parametrize("seed", range(8))
async def test_no_rm_has_two_owners(kubernetes_backend: KubernetesBackend, api: ApiServer, seed: int) -> None:
    """Whatever hangs or is lost, an RM has one deciding owner, and its epochs rise."""
    draw = Random(seed)
    players = []
    for number in range(3):
        clock = HandClock()
        players.append(Player(number, kubernetes_backend.open(LEASE, clock), clock, draw))
    held: list[tuple[int, asyncio.Event]] = []
    for number in range(STEPS):
        if draw.random() < 0.2 and (event := disturb(api, draw)):
            held.append((number + draw.randint(1, 12), event))
        for _, event in [one for one in held if one[0] <= number]:
            event.set()
        await step(players, api, draw, number)
        check(players)
    for _, event in held:
        event.set()
    for player in players:
        await asyncio.gather(*(task for task in (player.doing, player.renewing) if task is not None))
        await player.store.close()
    epochs: dict[str, list[int]] = {}
    for change in api.cluster.history:
        if ".rm." in change.item["metadata"]["name"]:
            record = read_rm_lease(change.item)
            epochs.setdefault(record.rm_id, []).append(record.epoch)
    assert sum(player.taken for player in players) >= len(RMS)
    for risen in epochs.values():
        assert risen == sorted(risen)
