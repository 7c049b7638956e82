"""Queue configurations that the RMs of the wire machine use, good ones and bad ones."""

from typing import NamedTuple

from support.core.builders import config
from support.wire.items import DEFAULT, SECOND


class Config(NamedTuple):
    """A configuration; bad ones have no partitions."""

    name: str
    text: str
    partitions: frozenset[str] = frozenset({DEFAULT})

    def __repr__(self) -> str:
        """Its name: the texts are long."""
        return self.name


class InForce:
    """What holds for an RM: what was applied goes on, unless it registers with something new."""

    applied: Config | None

    def __init__(self) -> None:
        """Nothing was applied, and the RM has said nothing."""
        self.applied = None
        self._said: Config | None = None

    def registered(self, config: Config) -> Config:
        """The RM has registered with this; what is in force now."""
        if config not in (self._said, self.applied):
            self.applied = None
        self._said = config
        return self.applied or config


_A = "{name: a, resources: {guaranteed: {vcore: 2m}, max: {vcore: 6m}}}"
_B = "{name: b, properties: {application.sort.policy: fair}}"
_P = "{name: p, queues: [{name: x, properties: {application.sort.policy: stateaware}}, {name: y}]}"
_CREATES = "placementrules: [{name: provided, create: true}]"
_LIMITS = "limits: [{limit: each, users: ['*'], maxresources: {vcore: 4m}}]"
_PLAIN = config(f"[{_A}, {_B}, {_P}]")
_SECOND = config("[{name: a}]", name=SECOND).partition("\n")[2]

GOOD = (
    Config("plain", _PLAIN),
    Config(
        "tight",
        config(
            "[{name: a, resources: {max: {vcore: 3m}}, maxapplications: 1}, {name: p, queues: [{name: x}]}]",
            rest=f"{_CREATES}\nnodesortpolicy: binpacking",
        ),
    ),
    Config(
        "limited",
        config(
            f"[{_A}, {_B}, {_P}]",
            rest=f"{_CREATES}\n{_LIMITS}",
        ),
    ),
    Config("two partitions", _PLAIN + _SECOND, frozenset({DEFAULT, SECOND})),
    Config("p is a leaf", config(f"[{_A}, {_B}, {{name: p}}]")),
    Config("a is a parent", config(f"[{{name: a, queues: [{{name: x}}]}}, {_B}]")),
)
"""The first is what an RM starts with. The last is refused while a has applications."""

BAD = (
    Config("no YAML", "partitions: ["),
    Config("unknown key", _PLAIN + "color: red\n"),
    Config(
        "more guaranteed than there may be",
        config("[{name: a, resources: {guaranteed: {vcore: 2}, max: {vcore: 1}}}]"),
    ),
    Config("duplicate queue", config("[{name: a}, {name: A}]")),
    Config(
        "bad second partition",
        _PLAIN + config("[{name: a, parent: 3}]", name=SECOND).partition("\n")[2],
    ),
    Config("broken rules", config("[{name: a}]", rest="placementrules: [{name: unheard_of}]")),
)
