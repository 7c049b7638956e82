"""Members that share RMs through a real etcd, and faults of all of these: ``make soak``.

A seed determines the faults and their durations. At the end of a cycle all faults end. Then every RM must be
served, and have the same state as the members.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from random import Random

import grpc

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.etcd import EtcdStore
from licorne_server.store.coordination.store import Snapshot
from licorne_server.testing import Proxy
from soak.ledger import SoakFailed
from soak.plain_rm import PlainRm
from soak.rm import SoakRm, compare
from support.coordination.backends import until, watching
from support.coordination.etcd import EtcdServer
from support.core.builders import config
from support.patience import PATIENCE
from support.server.server_process import ForkedServer, ServerProcess
from support.server.settings_file import settings_file

CONFIG = config("[{name: work}]")
PREFIX = "chaos"
LEASE = 3.0
"""The lease of a member in seconds."""
CLIENTS = 4
NODES = 4
NODE_VCORE = 1_000
ASKS = 20
"""The maximum of new asks of an RM in a cycle: with those of the previous cycle they fill its nodes."""
FAULTS = 3
"""The maximum of faults in a cycle."""
POLL = 0.1
"""Seconds between two comparisons of sides that differed."""

Rm = SoakRm | PlainRm
Fault = Callable[[], Awaitable[None]]


async def agree(rm: Rm, target: str) -> None:
    """Wait until the RM's ledger and the state of a member are equal.

    Raises:
        SoakFailed: They were never equal.
    """
    given_up = asyncio.get_running_loop().time() + PATIENCE
    while True:
        try:
            await compare(rm, target)
        except (SoakFailed, grpc.aio.AioRpcError) as error:
            if asyncio.get_running_loop().time() > given_up:
                raise SoakFailed(f"after {PATIENCE:.0f} s: {error}") from None
            await asyncio.sleep(POLL)
        else:
            return


class Balancer(Proxy):
    """A common address of several members: connections are passed to each in turn."""

    def __init__(self, targets: Sequence[str]) -> None:
        """`targets` are ``host:port`` of the members."""
        super().__init__()
        self._targets = targets
        self._turns = count()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.upstream = self._targets[next(self._turns) % len(self._targets)]
        await super()._pass(reader, writer)


class Stage:
    """Members, RMs, their connections, and their faults."""

    def __init__(self, seed: int) -> None:
        """Start without members."""
        self._random = Random(seed)
        self.members: list[ServerProcess] = []
        self.rms: list[Rm] = []
        self.lines: list[Proxy] = []
        """The connections to members and to the store."""
        self.store: EtcdServer | None = None
        self.reader: EtcdStore | None = None
        """A direct reader of the store."""
        self.done: list[str] = []
        """The faults of the cycle, for the error."""
        self._heal: list[tuple[str, Fault]] = []
        self._drawn: list[Fault] = []
        self._last: dict[str, list[str]] = {}
        self._epochs: dict[str, int] = {}
        self._has_forgotten = False

    async def cycle(self, number: int) -> None:
        """Submit asks during faults, end the faults, and compare both sides.

        Raises:
            SoakFailed: An RM was not served, or the sides differ.
        """
        self.done = []
        self._has_forgotten = False
        try:
            apps = {rm.rm_id: [f"app-{number}-{n}" for n in range(2)] for rm in self.rms}
            for rm in self.rms:
                await rm.submit(apps[rm.rm_id])
            for _ in range(self._random.randint(1, FAULTS)):
                await self._fail()
                await self._ask_some(apps, number)
            await self._heal_all()
            for rm in self.rms:
                await self._settle(rm, self._last.get(rm.rm_id, []))
            await self._look_at_owners()
            self._last = apps
        except SoakFailed as error:
            raise SoakFailed(f"cycle {number}, {', '.join(self.done)}: {error}") from None

    async def _ask_some(self, apps: dict[str, list[str]], number: int) -> None:
        """Submit some of the asks of the cycle during a fault."""
        for rm in self.rms:
            for app_id in apps[rm.rm_id]:
                asked = {*rm.running, *rm.waiting}
                keys = [f"{app_id}-{n}" for n in range(ASKS // 2)]
                share = self._random.sample(keys, self._random.randint(0, len(keys)))
                await rm.ask(app_id, [key for key in share if key not in asked])

    async def _settle(self, rm: Rm, last: Sequence[str]) -> None:
        """Wait until an RM is served, end the allocations since the last cycle, and compare both sides."""
        await rm.until(lambda: not rm.waiting, "allocations")
        await rm.release([key for key in rm.running if key.rpartition("-")[0] in last])
        await rm.until(lambda: not rm.ending, "releases")
        await rm.remove(last)
        await agree(rm, self._random.choice(self.members).target)

    async def _look_at_owners(self) -> None:
        """Check that every RM gets a living owner, under an epoch that has not fallen.

        A restored store has the previous owner and epoch until the present owner claims the RM again.
        """
        if self.reader is None:
            return
        least = {RmId(rm.rm_id): self._least_epoch(rm) for rm in self.rms}
        seen: Snapshot | None = None

        def all_owned(snapshot: Snapshot) -> bool:
            nonlocal seen
            seen = snapshot
            living = {rm_id: record for rm_id, record in seen.rms.items() if record.owner in seen.members}
            return least.keys() == living.keys() and all(
                record.epoch >= least[rm_id] for rm_id, record in living.items()
            )

        try:
            async with watching(self.reader) as snapshots:
                owned = await until(snapshots, all_owned)
        except TimeoutError:
            raise SoakFailed(f"the store has {seen}, though RMs had the epochs {least}") from None
        self._epochs = {rm_id: record.epoch for rm_id, record in owned.rms.items()}

    def _least_epoch(self, rm: Rm) -> int:
        """The lowest epoch under which the RM may be served."""
        known = self._epochs.get(rm.rm_id, 0)
        if isinstance(rm, SoakRm):
            return max(known, rm.epoch)
        # If the store has lost its epoch, an RM with plain stubs cannot name it.
        return 0 if self._has_forgotten else known

    async def _fail(self) -> None:
        """Draw a fault, each once before any is repeated, and let it last for a while."""
        faults = [self._kill, self._stop, self._cut, self._hold]
        if self.store is not None:
            faults += [self._kill_the_store, self._stop_the_store, self._wipe_the_store]
            faults += [self._restore_the_store, self._stop_past_the_lease]
        self._drawn = self._drawn or self._random.sample(faults, len(faults))
        await self._drawn.pop()()
        await asyncio.sleep(self._random.uniform(0, LEASE))
        # Some faults end before the next one begins, and some do not.
        if self._random.random() < 0.5:
            await self._heal_all()

    async def _heal_all(self) -> None:
        # A member that is started first connects to the store.
        self._heal.sort(key=lambda item: "etcd" not in item[0])
        while self._heal:
            _, heal = self._heal.pop(0)
            await heal()

    def _begin(self, name: str, heal: Fault) -> bool:
        """Record a fault; False if it is in progress already."""
        if any(name.rsplit(maxsplit=1)[-1] == known.split()[-1] for known, _ in self._heal):
            return False
        self.done.append(name)
        self._heal.append((name, heal))
        return True

    async def _kill(self) -> None:
        number = self._random.randrange(len(self.members))
        member = self.members[number]
        if self._begin(f"kill member-{number}", member.start):
            await member.kill()

    async def _stop(self) -> None:
        number = self._random.randrange(len(self.members))
        member = self.members[number]

        async def resume() -> None:
            member.send(signal.SIGCONT)

        if self._begin(f"stop member-{number}", resume):
            member.send(signal.SIGSTOP)

    async def _stop_past_the_lease(self) -> None:
        """Stop a member, and wait until the store has ended its lease."""
        if any("etcd" in known for known, _ in self._heal):
            return
        assert self.reader is not None
        number = self._random.randrange(len(self.members))
        member = self.members[number]

        async def resume() -> None:
            member.send(signal.SIGCONT)

        if self._begin(f"stop past its lease member-{number}", resume):
            member.send(signal.SIGSTOP)
            async with watching(self.reader) as snapshots:
                await until(snapshots, lambda seen: not _has_lease(seen, member))

    async def _cut(self) -> None:
        line = self._random.choice(self.lines)
        self.done.append("cut a line")
        await line.cut()

    async def _hold(self) -> None:
        number = self._random.randrange(len(self.lines))
        line = self.lines[number]

        async def flow() -> None:
            line.flowing.set()

        if self._begin(f"hold line-{number}", flow):
            line.flowing.clear()

    async def _kill_the_store(self) -> None:
        assert self.store is not None
        store = self.store

        async def start() -> None:
            await asyncio.to_thread(store.start)

        if self._begin("kill etcd", start):
            store.kill()

    async def _stop_the_store(self) -> None:
        assert self.store is not None
        store = self.store

        async def resume() -> None:
            store.resume()

        if self._begin("stop etcd", resume):
            store.pause()

    async def _wipe_the_store(self) -> None:
        """Let the store lose everything: an RM must then be served under a higher epoch."""
        assert self.store is not None
        if self._begin("wipe etcd", _nothing):
            self._has_forgotten = True
            await asyncio.to_thread(self.store.wipe)

    async def _restore_the_store(self) -> None:
        """Back up the store now, and restore the copy when faults end."""
        assert self.store is not None
        store = self.store

        async def restore() -> None:
            await asyncio.to_thread(store.restore)

        if self._begin("restore etcd", restore):
            self._has_forgotten = True
            await asyncio.to_thread(self.store.back_up)


async def _nothing() -> None:
    """Do nothing at the end of a fault."""


def _has_lease(seen: Snapshot, member: ServerProcess) -> bool:
    return any(each.address == member.target for each in seen.members.values())


@asynccontextmanager
async def stage(members: int, seed: int) -> AsyncIterator[Stage]:
    """Members with their store (none for a single server), RMs with clients, and one with plain stubs."""
    made = Stage(seed)
    async with AsyncExitStack() as stack:
        if members > 1:
            made.store = stack.enter_context(EtcdServer())
            made.reader = EtcdStore(made.store.options(PREFIX))
            stack.push_async_callback(made.reader.close)
        for _ in range(members):
            flags: tuple[str, ...] = ()
            if made.store is not None:
                line = await stack.enter_async_context(Proxy(made.store.target))
                made.lines.append(line)
                store = f"etcd://{line.target}/{PREFIX}"
                flags = settings_file(coordination={"store": store, "lease": LEASE})
            made.members.append(await stack.enter_async_context(ForkedServer(*flags)))
        targets = [member.target for member in made.members]
        for number in range(CLIENTS + 1):
            line = await stack.enter_async_context(Balancer(targets))
            made.lines.append(line)
            kind: type[SoakRm] | type[PlainRm] = SoakRm if number < CLIENTS else PlainRm
            rm = kind(line.target, f"rm{number}", CONFIG)
            await stack.enter_async_context(rm)
            await rm.add_nodes([f"node-{n}" for n in range(NODES)], NODE_VCORE)
            made.rms.append(rm)
        yield made


async def shake(members: int, cycles: int, told: Callable[[int], None], seed: int = 1) -> None:
    """Run this number of cycles of faults; `told` is called after each successful one.

    Raises:
        SoakFailed: A check failed.
    """
    async with stage(members, seed) as made:
        for number in range(cycles):
            await made.cycle(number)
            told(number + 1)
