"""Random limits: for users and groups, and for the number of applications that run."""

import json
from random import Random
from typing import Any

from licorne_core.config import load
from licorne_core.values.errors import ConfigError
from support.worlds.amounts import some, written

NAMED = [{"users": ["ann"]}, {"users": ["bob", "cid"]}, {"groups": ["dev"]}, {"groups": ["ops"]}]
EVERYBODY = [{"users": ["*"]}, {"groups": ["*"]}]


def with_limits(rng: Random, config: dict[str, Any]) -> dict[str, Any]:
    """A partition's configuration with limits and with numbers of applications.

    Limits deeper in the tree have to agree with those above them: they are drawn now and then,
    and left out where they contradict.
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
    """The queue, and all below it, with how many applications may run: below, no more than above.

    `most` 0: there is no number above.
    """
    number = rng.randint(1, most or 3) if most or rng.random() < 0.2 else 0
    children = [_numbered(rng, child, number) for child in queue["queues"]]
    numbers = {"maxapplications": number} if number else {}
    return {**queue, **numbers, "queues": children}


def _limited(rng: Random, queue: dict[str, Any]) -> dict[str, Any]:
    """The queue, and all below it, now and then with a limit."""
    limited = {**queue, "queues": [_limited(rng, child) for child in queue["queues"]]}
    if queue["name"] != "root" and rng.random() < 0.2:
        limited["limits"] = _limits(rng, 0.3, queue.get("maxapplications", 3))
    return limited


def _limits(rng: Random, share: float, most: int) -> list[dict[str, Any]]:
    """Limits for a share of those who submit; those for everybody come last, as they must."""
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
