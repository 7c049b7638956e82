"""Random clusters, small enough for an exhaustive search, and full enough for preemption to matter."""

from dataclasses import replace
from random import Random

from licorne_core.config.schema import PreemptionPolicy, QueueSettings, VictimOrder
from licorne_core.model.apps.requests import RequestState
from licorne_core.standard.preemption.keys import RECLAIM
from support.preemption.records import Cluster, Hold, LossRecord, NodeRecord, QueueRecord, RequestRecord

NOW = 1_000_000.0
TYPES = ["vcore", "vcore", "vcore", "memory", "memory", "gpu"]
SHAPES = [
    ["a", "b"],
    ["a", "b", "c"],
    ["a", "p.x", "p.y"],
    ["p.x", "p.y", "q.x"],
    ["p.q.x", "p.q.y", "p.z", "a"],
    ["p.x", "p.y", "q.r.x", "q.r.y", "a"],
]
STATES = [
    *[RequestState.ALLOCATED] * 14,
    *[RequestState.PLACEHOLDER] * 2,
    RequestState.ASSUMED,
    RequestState.RELEASING,
    RequestState.LINKED,
    *[RequestState.PREEMPTING] * 2,
]
ASK = "ask"


class Drawing:
    """One random cluster with about `running` allocations, some of them in `elastic` gangs."""

    def __init__(self, seed: int, running: int = 9, *, elastic: bool = False, reclaims: bool = False) -> None:
        """Draw the properties of the whole cluster first. With `reclaims` queues claim fair shares."""
        # A random source of its own leaves the other draws of a seed unchanged.
        self.of_gangs = Random(f"elastic {seed}") if elastic else None
        self.of_shares = Random(f"reclaims {seed}") if reclaims else None
        self.random = random = Random(seed)
        self.running = running
        self.types = list(dict.fromkeys(random.choices(TYPES, k=3)))
        self.has_priorities = random.random() < 0.5
        self.has_policies = random.random() < 0.4
        self.has_restraint = random.random() < 0.3
        self.has_odd_ones = random.random() < 0.4
        self.by_cost = random.random() < 0.25
        self.is_tight = random.random() < 0.4
        self.largest = random.choice([1, 2, 3, 3])

    def cluster(self) -> Cluster:
        """The drawn cluster. Its last request is the preempting ask."""
        random = self.random
        leaves = [f"root.{path}" for path in random.choice(SHAPES[3:] if self.is_tight else SHAPES)]
        asking = leaves[0] if random.random() < 0.6 else random.choice(leaves)
        nodes = [self._node(f"n{number}") for number in range(random.randint(1, 4))]
        requests = self._running(leaves, asking, nodes)
        nodes = [self._filled(node, requests) for node in nodes]
        requests += self._waiting(leaves, nodes)
        ask = self._ask(asking, nodes)
        if self.of_shares is not None and self.of_shares.random() < 0.7:
            ask = replace(ask, size=dict.fromkeys(list(ask.size)[:1], 1))
        queues = tuple(self._queues(leaves, asking, requests))
        gangs = self._gangs({one.app for one in requests})
        requests = [
            replace(one, is_member=True) if one.app in gangs and self._joins(one) else one for one in requests
        ]
        return Cluster(
            elastic=gangs,
            queues=queues,
            nodes=tuple(nodes),
            requests=(*requests, *self._demand(leaves), ask),
            losses=tuple(self._losses(leaves)),
            now=NOW,
        )

    def _demand(self, leaves: list[str]) -> list[RequestRecord]:
        """Add further asks, which only count for fair shares."""
        rng = self.of_shares
        if rng is None:
            return []
        waiting = [leaf for leaf in leaves for _ in range(rng.choice([0, 0, 1, 2]))]
        return [
            RequestRecord(
                app=f"app-{leaf}-w",
                key=f"d{number}",
                leaf=leaf,
                size={name: rng.randint(1, 4) for name in self.types if rng.random() < 0.7} or {"vcore": 1},
            )
            for number, leaf in enumerate(waiting)
        ]

    def _gangs(self, apps: set[str]) -> dict[str, tuple[int, int]]:
        rng = self.of_gangs
        if rng is None:
            return {}
        return {
            app: (rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2, 3]))
            for app in sorted(apps)
            if rng.random() < 0.7
        }

    def _joins(self, request: RequestRecord) -> bool:
        """True for most of the possible members of a gang."""
        return (
            self.of_gangs is not None
            and request.node is not None
            and request.required_node is None
            and self.of_gangs.random() < 0.9
        )

    def size(self, largest: int) -> dict[str, int]:
        """Some amounts."""
        random = self.random
        names = random.sample(self.types, random.choice([1, 1, 1, len(self.types)]))
        return {name: random.randint(1, largest) for name in sorted(names)}

    def _node(self, name: str) -> NodeRecord:
        random = self.random
        odd = self.has_odd_ones
        return NodeRecord(
            name=name,
            capacity={kind: random.randint(2, 8) for kind in self.types},
            schedulable=not (odd and random.random() < 0.1),
            refused=frozenset({random.random() < 0.5}) if random.random() < 0.2 else frozenset(),
        )

    def _filled(self, node: NodeRecord, requests: list[RequestRecord]) -> NodeRecord:
        """The node with foreign allocations, so that little or no room is left."""
        used = [request.size for request in requests if request.node == node.name]
        room = self.random.choice([0, 1, 4, 8] if self.is_tight else [0, 0, 0, 0, 1])
        left = {
            name: capacity - sum(size.get(name, 0) for size in used)
            for name, capacity in node.capacity.items()
        }
        occupied = {name: free - room for name, free in left.items() if free > room}
        return replace(node, occupied=occupied)

    def _running(self, leaves: list[str], asking: str, nodes: list[NodeRecord]) -> list[RequestRecord]:
        """Allocations, most of them outside the leaf of the ask."""
        random = self.random
        free = {node.name: dict(node.capacity) for node in nodes}
        made: list[RequestRecord] = []
        for number in range(4 * self.running):
            size = self.size(self.largest)
            fitting = [n for n, left in free.items() if all(left[k] >= v for k, v in size.items())]
            if not fitting or len(made) >= self.running:
                continue
            node = random.choice(fitting)
            for name, amount in size.items():
                free[node][name] -= amount
            leaf = random.choice([*leaves, *(one for one in leaves if one != asking)])
            made.append(self._allocation(number, leaf, node, size))
        return made

    def _allocation(self, number: int, leaf: str, node: str, size: dict[str, int]) -> RequestRecord:
        random = self.random
        created = NOW - random.choice([1, 5, 30, 60, 60, 300])
        state = random.choice(STATES) if self.has_odd_ones else RequestState.ALLOCATED
        cost = random.choice([{}, {"licorne/preemption-cost": random.choice(["0", "0.5", "3"])}])
        return RequestRecord(
            app=f"app-{leaf}-{random.randint(0, 1)}",
            key=f"k{number:02}",
            leaf=leaf,
            size=size,
            state=state,
            node=node,
            priority=self._priority(),
            created=created,
            started=random.choice([created, NOW - 1.0, NOW]),
            brought=random.random() < 0.2,
            originator=random.random() < 0.2,
            opted_in=random.random() < 0.75,
            required_node=node if self.has_odd_ones and random.random() < 0.1 else None,
            tags=cost if self.by_cost else {},
            checkpoint=NOW - random.choice([0, 2, 9, 40]) if self.by_cost and random.random() < 0.5 else None,
        )

    def _waiting(self, leaves: list[str], nodes: list[NodeRecord]) -> list[RequestRecord]:
        """Other asks with a reserved node, some of which have victims."""
        random = self.random
        found = []
        for number, node in enumerate((*nodes, *nodes)):
            if random.random() < (0.3 if self.has_odd_ones else 0.05):
                leaf = random.choice(leaves)
                required = random.random() < 0.2
                since = NOW - random.choice([3, 4, 5, 60])
                provisional = not required and number % 4 == 1
                exclusive = not provisional and number % 5 == 2
                hold = Hold(
                    node=node.name,
                    time=since,
                    required=required,
                    provisional=provisional,
                    exclusive=exclusive,
                )
                found.append(
                    RequestRecord(
                        app=f"app-{leaf}-w",
                        key=f"w{number}",
                        leaf=leaf,
                        size=self.size(2),
                        priority=self._priority() - random.randint(0, 2),
                        required_node=node.name if required else None,
                        triggered=random.random() < 0.5 and not provisional,
                        hold=hold,
                    )
                )
        return found

    def _ask(self, leaf: str, nodes: list[NodeRecord]) -> RequestRecord:
        random = self.random
        own = random.random() < 0.1
        return RequestRecord(
            app=f"app-{leaf}-0",
            key=ASK,
            leaf=leaf,
            size=self.size(random.choice([1, 2, 3, 4])),
            priority=self._priority() + 1,
            predicate="arm" if random.random() < 0.3 else None,
            hold=Hold(node=random.choice(nodes).name, time=NOW) if own else None,
        )

    def _priority(self) -> int:
        return self.random.randint(-1, 3) if self.has_priorities else 0

    def _queues(self, leaves: list[str], asking: str, requests: list[RequestRecord]) -> list[QueueRecord]:
        paths = {"root"}
        for leaf in leaves:
            parts = leaf.split(".")
            paths |= {".".join(parts[:count]) for count in range(2, len(parts) + 1)}
        queues = []
        for path in sorted(paths):
            used = {
                kind: sum(r.size.get(kind, 0) for r in requests if r.node and within(r.leaf, path))
                for kind in self.types
            }
            queue = QueueRecord(path=path, is_leaf=path in leaves, settings=self._settings())
            if path != "root":
                shared = within(asking, path) and path != asking
                guaranteed = self._guaranteed(used, mine=path == asking, shared=shared)
                maximum = self._max(used, shared=shared)
                queue = replace(queue, guaranteed=guaranteed, max=maximum)
            queues.append(queue)
        return (
            queues if self.of_shares is None else [self._reclaims(queue, self.of_shares) for queue in queues]
        )

    def _reclaims(self, queue: QueueRecord, rng: Random) -> QueueRecord:
        """The queue with a claim to its fair share, mostly without a guarantee."""
        extended = ((RECLAIM, True),) if rng.random() < 0.9 else ()
        guaranteed = queue.guaranteed if rng.random() < 0.2 else None
        settings = replace(queue.settings, extended=extended)
        return replace(queue, settings=settings, guaranteed=guaranteed)

    def _guaranteed(self, used: dict[str, int], *, mine: bool, shared: bool) -> dict[str, int] | None:
        random = self.random
        if random.random() < (0.07 if mine else 0.9 if shared else 0.55):
            return None
        number = len(self.types) if mine or random.random() < 0.7 else 1
        names = random.sample(self.types, number)
        least, most = (2, 9) if mine or shared else (-4, 0)
        sizes = {name: max(0, used[name] + random.randint(least, most)) for name in names}
        return sizes if any(sizes.values()) else None

    def _max(self, used: dict[str, int], *, shared: bool) -> dict[str, int] | None:
        random = self.random
        if random.random() < ((0.1 if self.is_tight else 0.6) if shared else 0.9):
            return None
        names = random.sample(self.types, random.randint(1, len(self.types)))
        return {name: max(0, used[name] + random.randint(-1, 1)) for name in names}

    def _settings(self) -> QueueSettings:
        random = self.random
        settings = QueueSettings(
            preemption_victim_order=VictimOrder.COST if self.by_cost else VictimOrder.AGE
        )
        if self.has_priorities and random.random() < 0.5:
            settings = replace(
                settings,
                priority_fence=random.random() < 0.3,
                priority_offset=random.randint(-2, 2),
            )
        if self.has_policies:
            policies = [*[PreemptionPolicy.DEFAULT] * 4, *PreemptionPolicy]
            settings = replace(settings, preemption=random.choice(policies))
        if self.has_restraint:
            limit = {name: random.choice([10, 60, 100, 400]) for name in self.types}
            some = random.sample(sorted(limit.items()), random.randint(0, len(limit)))
            settings = replace(
                settings,
                preemption_minimum_runtime=random.choice([0.0, 1.0, 30.0]),
                preemption_loss_limit=tuple(sorted(some)),
            )
        return settings

    def _losses(self, leaves: list[str]) -> list[LossRecord]:
        random = self.random
        if not self.has_restraint:
            return []
        return [
            LossRecord(
                leaf=random.choice(leaves),
                time=NOW - random.choice([5.0, 3599.0, 3600.0, 4000.0]),
                size=self.size(2),
                seconds=random.choice([1.0, 10.0, 40.0]),
            )
            for _ in range(random.randint(0, 4))
        ]


def within(leaf: str, path: str) -> bool:
    """True if the leaf is the queue at the path, or below it."""
    return leaf == path or leaf.startswith(f"{path}.")
