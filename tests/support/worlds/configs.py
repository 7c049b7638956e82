"""Random valid queue configurations, with limits and amounts, as the YAML text of an RM."""

import json
from random import Random
from typing import Any

from licorne_core.config import load
from licorne_core.values.errors import ConfigError
from support.oracle.books import Amounts

TYPES = {"vcore": 1000, "memory": 8, "gpu": 1}
"""Resource types of the worlds, with a medium amount of each."""


def some(rng: Random, low: int, high: int) -> Amounts:
    """Random amounts of some types, each a multiple of a medium amount."""
    return {name: rng.randint(low, high) * typical for name, typical in TYPES.items() if rng.random() < 0.6}


def written(size: Amounts) -> dict[str, str]:
    """Amounts in the form of a configuration."""
    return {name: f"{value}m" if name == "vcore" else str(value) for name, value in size.items()}


REMEMBERING = 0.25
"""The share of partitions with decayed usage."""

AGEINGS = ["1/1s", "2/1s max 9", "3/5s max 4", "1/30s max 2", "2147483647/2s", "off"]
"""Gains of priority by age."""

AGEING = 0.2
"""The share of partitions in which priority rises with age."""

HOURS = [
    "13:46-13:48",
    "13:00-13:47,13:49-13:52,14:20-15:00",
    "13:47-14:30",
    "14:47-13:47",
    "22:00-13:50",
    "13:48-24:00,00:00-06:00",
    "off",
]
"""Opening hours: worlds begin at 13:46:40 UTC, and most last some minutes, or hours."""

CLOSING = 0.1
"""The share of partitions with leaves that start asks only in some hours of the day."""

NAMED = [{"users": ["ann"]}, {"users": ["bob", "cid"]}, {"groups": ["dev"]}, {"groups": ["ops"]}]
EVERYBODY = [{"users": ["*"]}, {"groups": ["*"]}]


def with_limits(rng: Random, config: dict[str, Any]) -> dict[str, Any]:
    """A partition's configuration with limits and maximum numbers of applications.

    Limits deep in the tree must agree with those above them; drawn limits that contradict are left out.
    """
    (root,) = config["queues"]
    numbered = _numbered(rng, root, 0)
    limits = _limits(rng, 0.5, numbered.get("maxapplications", 3))
    config = {**config, "limits": limits, "queues": [numbered]}
    if rng.random() < 0.7:
        return config
    limited = {**config, "queues": [_limited(rng, numbered)]}
    try:
        load(json.dumps({"partitions": [limited]}))
    except ConfigError:
        return config
    return limited


def _numbered(rng: Random, queue: dict[str, Any], most: int) -> dict[str, Any]:
    """The queue and those below it, with maximum numbers of applications that decrease downwards.

    `most` is the number of the next queue above with one, 0 for none.
    """
    number = rng.randint(1, most or 3) if most or rng.random() < 0.2 else 0
    children = [_numbered(rng, child, number) for child in queue["queues"]]
    numbers = {"maxapplications": number} if number else {}
    return {**queue, **numbers, "queues": children}


def _limited(rng: Random, queue: dict[str, Any]) -> dict[str, Any]:
    """The queue and those below it, some of them with a limit."""
    limited = {**queue, "queues": [_limited(rng, child) for child in queue["queues"]]}
    if queue["name"] != "root" and rng.random() < 0.2:
        limited["limits"] = _limits(rng, 0.3, queue.get("maxapplications", 3))
    return limited


def _limits(rng: Random, share: float, most: int) -> list[dict[str, Any]]:
    """Limits for a share of the users, with wildcards last, as required."""
    chosen = [who for who in NAMED if rng.random() < share]
    groups = any("groups" in who for who in chosen)
    chosen += [who for who in EVERYBODY if rng.random() < 0.4 and ("users" in who or groups)]
    return [_limit(rng, who, most) for who in chosen]


def _limit(rng: Random, who: dict[str, list[str]], most: int) -> dict[str, Any]:
    size = some(rng, 0, 6)
    limit: dict[str, Any] = {"limit": "drawn", **who}
    if any(size.values()):
        limit["maxresources"] = written(size)
    if "maxresources" not in limit or rng.random() < 0.5:
        limit["maxapplications"] = rng.randint(1, most)
    return limit


def give_notices(rng: Random, shape: dict[str, Any]) -> None:
    """Give most queues a notice period; some compare costs, or bound losses."""
    if rng.random() < 0.8:
        shape["properties"]["preemption.notice"] = rng.choice(["500ms", "2s", "5s", "20s"])
        shape["properties"].setdefault("preemption.delay", "500ms")
    if rng.random() < 0.4:
        shape["properties"]["preemption.victim.order"] = "cost"
    if rng.random() < 0.1:
        shape["properties"]["preemption.loss.limit"] = "vcore=30000m"
    for child in shape["queues"]:
        give_notices(rng, child)


def want_shares(rng: Random, maker: "ConfigMaker", shape: dict[str, Any]) -> None:
    """Let most queues claim their fair shares, and fewer have guarantees."""
    if rng.random() < 0.8:
        shape["properties"]["preemption.reclaim"] = "fair-share"
    shape["properties"].setdefault("preemption.delay", "500ms")
    if rng.random() < 0.5:
        maker.favoured.discard(id(shape))
    for child in shape["queues"]:
        want_shares(rng, maker, child)


class ConfigMaker:
    """Makes one partition's configuration, and later variants of it for reloads."""

    def __init__(
        self, rng: Random, *, creates: bool, hides: bool, preempts: bool, topology: Random | None = None
    ) -> None:
        """Draw the shape of the tree.

        With `creates` placement creates queues, with `hides` later variants lack some queues. With `preempts`
        guarantees are larger, and there are settings for preemption.
        """
        self.rng = rng
        # A random source of its own leaves the other draws of a seed unchanged.
        beside = Random()
        beside.setstate(rng.getstate())
        self.of_reservations = Random(beside.random())
        self.of_memory = Random(beside.random())
        self.remembers = self.of_memory.random() < REMEMBERING
        self.ages = self.of_memory.random() < AGEING
        self.of_order = Random(beside.random())
        self.of_hours = Random(beside.random())
        self.closes = self.of_hours.random() < CLOSING
        self.topology = topology
        self.preempts = preempts
        self.creates = creates
        self.hides = hides
        self.limited = rng.random() < (0.2 if preempts else 0.5)
        self.hidden: set[int] = set()
        self.favoured: set[int] = set()
        self.shape = self._queue("root", depth=0)
        self.node_order = self._node_order()

    def leaves(self) -> list[str]:
        """Full paths of the leaves, and of leaves that placement may create."""
        paths: list[str] = []
        self._collect(self.shape, "root", paths)
        return paths

    def favoured_leaves(self) -> list[str]:
        """Full paths of the leaves that nearly always have large guarantees."""
        paths: list[str] = []
        self._collect_favoured(self.shape, "root", paths)
        return paths

    def partition(self, name: str) -> dict[str, Any]:
        """One variant: the same tree and settings, with new guarantees and maxima."""
        config: dict[str, Any] = {"name": name, "queues": [self._sized(self.shape)]}
        if self.creates:
            config["placementrules"] = [{"name": "provided", "create": True}]
        if self.node_order:
            config["nodesortpolicy"] = self.node_order
        if self.preempts and self.rng.random() < 0.06:
            config["preemption"] = {"enabled": False}
        if self.topology is not None:
            _add_levels(self.topology, config["queues"][0])
        return with_limits(self.rng, config) if self.limited else config

    def resettle(self) -> None:
        """Change settings such as sort policies, offsets and node order, as an operator would by a reload."""
        if self.rng.random() < 0.5:
            self.node_order = self._node_order()
        self.hidden.clear()
        self._resettle_queue(self.shape, anew=self.rng.random() < 0.5)

    def _resettle_queue(self, shape: dict[str, Any], *, anew: bool) -> None:
        if anew:
            shape["properties"] = self._properties()
        for child in shape["queues"]:
            if self.hides and self.rng.random() < 0.1:
                self.hidden.add(id(child))
            self._resettle_queue(child, anew=anew)

    # Shape and settings

    def _queue(self, name: str, depth: int) -> dict[str, Any]:
        rng = self.rng
        least = 2 if self.preempts else 1
        count = rng.randint(least, 3) if depth == 0 or (depth < 3 and rng.random() < 0.4) else 0
        shape: dict[str, Any] = {"name": name, "properties": self._properties()}
        if self.preempts and depth and rng.random() < 0.4:
            self.favoured.add(id(shape))
        shape["queues"] = [self._queue(f"q{i}", depth + 1) for i in range(count)]
        if self.creates and (count or depth == 0):
            shape["childtemplate"] = self._template()
        return shape

    def _properties(self) -> dict[str, str]:
        rng = self.rng
        properties = {}
        if rng.random() < 0.5:
            properties["application.sort.policy"] = rng.choice(["fifo", "fair"])
        if rng.random() < 0.3:
            properties["application.sort.priority"] = rng.choice(["enabled", "disabled"])
        if rng.random() < 0.2:
            properties["priority.policy"] = rng.choice(["default", "fence"])
        if rng.random() < 0.3:
            properties["priority.offset"] = str(rng.choice([-5, -1, 1, 3, 2**31 - 1, -(2**31)]))
        if self.limited and rng.random() < 0.2:
            properties["application.sort.policy"] = self.of_order.choice(["stateaware", "strict"])
        if self.of_reservations.random() < 0.3:
            properties.update(_of_reservations(self.of_reservations))
        if self.remembers:
            properties.update(_of_memory(self.of_memory))
        if self.ages and self.of_memory.random() < 0.6:
            properties["ageing"] = self.of_memory.choice(AGEINGS)
        if self.closes and self.of_hours.random() < 0.5:
            properties["opening.hours"] = self.of_hours.choice(HOURS)
        if rng.random() < 0.1:
            properties["application.unschedasks.backoff"] = str(rng.randint(1, 3))
            properties["application.unschedasks.backoff.delay"] = "4s"
        return {**properties, **self._of_preemption()} if self.preempts else properties

    def _of_preemption(self) -> dict[str, str]:
        """The delays, candidates and order of preemption."""
        rng = self.rng
        chosen = [
            ("preemption.delay", 0.9, ["500ms", "500ms", "1s", "2s", "5s"]),
            ("preemption.policy", 0.25, ["default", "fence", "disabled"]),
            ("preemption.minimum.runtime", 0.1, ["500ms", "3s", "20s"]),
            ("preemption.loss.limit", 0.1, ["vcore=9000m", "memory=60,vcore=30000m", "gpu=0"]),
            ("preemption.victim.order", 0.3, ["age", "cost", "cost"]),
        ]
        return {name: rng.choice(texts) for name, share, texts in chosen if rng.random() < share}

    def _template(self) -> dict[str, Any]:
        template: dict[str, Any] = {"properties": self._properties()}
        if self.rng.random() < 0.5:
            template["resources"] = {"max": written(self._some(2, 6))}
        if self.limited and self.rng.random() < 0.3:
            template["maxapplications"] = self.rng.randint(1, 2)
        return template

    def _node_order(self) -> dict[str, Any]:
        rng = self.rng
        drawn = rng.random()
        if drawn < 0.3:
            return {} if drawn < 0.2 else {"type": "auto"}
        order: dict[str, Any] = {"type": rng.choice(["fair", "binpacking", "spread"])}
        if order["type"] == "spread":
            order["attribute"] = "zone"
        if rng.random() < 0.5:
            order["resourceweights"] = {
                name: rng.choice([0.0, 0.25, 1.0, 4.0]) for name in TYPES if rng.random() < 0.7
            }
        return order

    # Sizes: guarantees from the leaves up, maxima from root down

    def _sized(self, shape: dict[str, Any]) -> dict[str, Any]:
        guaranteed: dict[int, Amounts] = {}
        self._guarantee(shape, guaranteed)
        return self._written(shape, guaranteed, {}, is_root=True)

    def _guarantee(self, shape: dict[str, Any], found: dict[int, Amounts]) -> Amounts:
        """The least amount that the queue's maximum must have: its guarantee, or those of its children."""
        least: Amounts = {}
        for child in shape["queues"]:
            for name, value in self._guarantee(child, found).items():
                least[name] = least.get(name, 0) + value
        if self.rng.random() < (0.9 if id(shape) in self.favoured else 0.4 - 0.2 * self.preempts):
            extra = self._due() if id(shape) in self.favoured else self._some(0, 2)
            least = {n: least.get(n, 0) + extra.get(n, 0) for n in {**least, **extra}}
            found[id(shape)] = least
        return least

    def _due(self) -> Amounts:
        """A guarantee that is large enough for preemption, with some of most types."""
        rng = self.rng
        return {
            name: rng.choice([1, 2, 4, 6]) * typical for name, typical in TYPES.items() if rng.random() < 0.85
        }

    def _written(
        self,
        shape: dict[str, Any],
        guaranteed: dict[int, Amounts],
        limits: Amounts,
        *,
        is_root: bool = False,
    ) -> dict[str, Any]:
        config = {key: value for key, value in shape.items() if key != "queues" and value}
        config["submitacl"] = "*"
        if not is_root:
            resources = {}
            own = guaranteed.get(id(shape))
            least = own if own is not None else self._least(shape, guaranteed)
            if own:
                resources["guaranteed"] = written(own)
            if self.rng.random() < (0.3 if self.preempts else 0.5):
                own_max = self._maximum(least, limits)
                limits = {**limits, **own_max}
                resources["max"] = written(own_max)
            config["resources"] = resources
        shown = [child for child in shape["queues"] if id(child) not in self.hidden]
        config["queues"] = [self._written(child, guaranteed, limits) for child in shown]
        config["parent"] = is_root or bool(shape["queues"]) or "childtemplate" in shape
        return config

    def _least(self, shape: dict[str, Any], guaranteed: dict[int, Amounts]) -> Amounts:
        own = guaranteed.get(id(shape))
        if own is not None:
            return own
        least: Amounts = {}
        for child in shape["queues"]:
            for name, value in self._least(child, guaranteed).items():
                least[name] = least.get(name, 0) + value
        return least

    def _maximum(self, least: Amounts, limits: Amounts) -> Amounts:
        """A maximum between the guarantees below and the maximum above."""
        maximum = {}
        for name, typical in TYPES.items():
            if self.rng.random() < 0.6:
                low = least.get(name, 0)
                high = limits.get(name, low + 6 * typical)
                maximum[name] = self.rng.choice([low, high, self.rng.randint(low, high)])
        return maximum

    def _some(self, low: int, high: int) -> Amounts:
        return some(self.rng, low, high)

    def _collect(self, shape: dict[str, Any], path: str, paths: list[str]) -> None:
        if not shape["queues"]:
            paths.append(path)
        elif self.creates:
            paths.append(f"{path}.made{self.rng.randint(0, 1)}")
        for child in shape["queues"]:
            self._collect(child, f"{path}.{child['name']}", paths)

    def _collect_favoured(self, shape: dict[str, Any], path: str, paths: list[str]) -> None:
        if not shape["queues"] and id(shape) in self.favoured:
            paths.append(path)
        for child in shape["queues"]:
            self._collect_favoured(child, f"{path}.{child['name']}", paths)


def text_of(partitions: list[dict[str, Any]]) -> str:
    """The text of a configuration; JSON is YAML, and fast to write."""
    return json.dumps({"partitions": partitions})


def _of_memory(rng: Random) -> dict[str, str]:
    """The half-life, the weight and the hours of a queue."""
    chosen = [
        ("fairshare.half-life", 0.5, ["500ms", "4s", "60s", "60s", "3600s", "off"]),
        ("fairshare.weight", 0.4, ["0", "0.25", "0.5", "1"]),
        ("budget.vcore-hours", 0.1, ["1m/hour", "3m/hour", "40m/hour", "20m/day"]),
        ("budget.memory-hours", 0.1, ["1/hour", "1/week"]),
        ("budget.gpu-hours", 0.05, ["0/hour", "1/day"]),
    ]
    return {name: rng.choice(texts) for name, share, texts in chosen if rng.random() < share}


def _of_reservations(rng: Random) -> dict[str, str]:
    """The number of reserved nodes, the exclusive reservation, and the idle timeout."""
    chosen = [
        ("reservation.max.nodes", 0.6, ["1", "2", "3", "9"]),
        ("application.reservation.max.nodes", 0.5, ["0", "1", "2", "9"]),
        ("reservation.exclusive", 0.4, ["true", "true", "false"]),
        ("reservation.idle.timeout", 0.4, ["1s", "5s", "20s"]),
    ]
    return {name: rng.choice(texts) for name, share, texts in chosen if rng.random() < share}


def _add_levels(rng: Random, root: dict[str, Any]) -> None:
    """Add topology levels, mostly the same, and the time of reservations for lost members."""
    properties = {"topology.levels": rng.choice(["zone, rack"] * 12 + ["rack", "zone,slot"])}
    if rng.random() < 0.5:
        properties["topology.swap-seconds"] = rng.choice(["0", "2", "30"])
    root["properties"] = {**root.get("properties", {}), **properties}
