"""Random limits: for users and groups, and for the number of applications that run."""

from random import Random
from typing import Any

import yaml

from licorne_core.config import load
from licorne_core.errors import ConfigError
from support.worlds.amounts import some, written

NAMED = [{"users": ["ann"]}, {"users": ["bob", "cid"]}, {"groups": ["dev"]}, {"groups": ["ops"]}]
EVERYBODY = [{"users": ["*"]}, {"groups": ["*"]}]


def with_limits(rng: Random, config: dict[str, Any]) -> dict[str, Any]:
    """A partition's configuration with limits, where these contradict nothing else in it.

    Limits deeper in the tree have to agree with those above them; where they do not, only
    those of the partition are left.
    """
    (root,) = config["queues"]
    limits = _limits(rng)
    limited = {**config, "limits": limits, "queues": [_limited(rng, root, 0)]}
    try:
        load(yaml.dump({"partitions": [limited]}, Dumper=yaml.CSafeDumper, sort_keys=False))
    except ConfigError:
        return {**config, "limits": limits}
    return limited


def _limited(rng: Random, queue: dict[str, Any], most: int) -> dict[str, Any]:
    """The queue, and all below it, with numbers of applications and now and then a limit."""
    number = rng.randint(1, most or 3) if most or rng.random() < 0.2 else 0
    children = [_limited(rng, child, number) for child in queue["queues"]]
    limited = {**queue, "queues": children}
    if number:
        limited["maxapplications"] = number
    if queue["name"] != "root" and rng.random() < 0.15:
        limited["limits"] = _limits(rng, few=True)
    return limited


def _limits(rng: Random, *, few: bool = False) -> list[dict[str, Any]]:
    """Limits for some of those who submit; those for everybody come last, as they must."""
    chosen = [who for who in NAMED if rng.random() < (0.3 if few else 0.5)]
    groups = any("groups" in who for who in chosen)
    chosen += [who for who in EVERYBODY if rng.random() < 0.4 and ("users" in who or groups)]
    return [_limit(rng, who) for who in chosen]


def _limit(rng: Random, who: dict[str, list[str]]) -> dict[str, Any]:
    size = {name: value for name, value in some(rng, 0, 6).items() if rng.random() < 0.8 or value}
    limit: dict[str, Any] = {"limit": "drawn"}
    # Lists of their own: YAML would write a list that is shared as an anchor and aliases.
    limit |= {kind: list(names) for kind, names in who.items()}
    if any(size.values()):
        limit["maxresources"] = written(size)
    if "maxresources" not in limit or rng.random() < 0.5:
        limit["maxapplications"] = rng.randint(1, 3)
    return limit
