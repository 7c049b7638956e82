"""Draws backfill: the properties of root, and the runtimes that applications and asks declare."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from licorne_core.config import InvalidConfiguration, submitted
from licorne_core.messages.commands import (
    Command,
    NewApplication,
    RegisterRm,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
)
from licorne_core.values.asks import Ask
from licorne_core.values.tags import RUNTIME
from support.oracle.config import text_of
from support.worlds.configs import TYPES, written

RUNTIMES = [1, 2, 3, 5, 8, 8, 20, 60, 600]
"""The declared runtimes in seconds; in worlds mostly a few seconds pass at a time."""

SHARE = 0.3
"""The default share of RMs with backfill."""

GANGS = 0.3
"""The share of these RMs that keep their gangs. The oracle plans no starts of gangs, so none are planned
there."""

NEVER = "9000000s"
"""An age that no ask reaches, so that no ask gets a planned start."""


class BackfillMaker:
    """Adds backfill to the commands of a world, from a random source of its own that changes nothing else."""

    def __init__(
        self,
        seed: int,
        rms: list[str],
        share: float,
        *,
        gangs: bool,
        shortest: float = 0.0,
        maxima: float = 0.0,
    ) -> None:
        """Draw a `share` of the RMs for backfill.

        With `gangs`, each of them keeps its gangs, which get planned starts. In the share `shortest` of their
        configurations the shortest overtake first. The share `maxima` of queues has low maxima, others in
        each configuration.
        """
        self._maxima, self._bounds = maxima, Random(f"maxima of backfill {seed}")
        self._shortest, self._orders = shortest, Random(f"order of backfill {seed}")
        self.rng = Random(f"backfill {seed}")
        self.rms = [rm for rm in rms if self.rng.random() < share]
        of_gangs = {rm: Random(f"backfill of gangs {seed} {rm}").random() for rm in self.rms}
        self.gangs = [rm for rm, drawn in of_gangs.items() if gangs or drawn < GANGS]
        self._holds = [rm for rm in self.rms if gangs or rm not in self.gangs]

    def marking(self, command: Command) -> Command:
        """The command, with backfill if its RM has backfill."""
        if isinstance(command, RegisterRm | UpdateConfiguration) and command.rm_id in self.rms:
            text = text_of(command)
            if self._maxima:
                bound = self._bounded(text)
                text = text if isinstance(submitted(bound), InvalidConfiguration) else bound
            text = self._configured(text, starts=command.rm_id in self._holds)
            return replace(command, config=submitted(text))
        if isinstance(command, UpdateApplications) and command.rm_id in self.rms:
            new = [replace(one, tags=self._tags(one.tags, 0.3)) for one in command.new]
            return replace(command, new=new if command.rm_id in self.gangs else [*map(_single, new)])
        if isinstance(command, UpdateAllocations) and command.rm_id in self.rms:
            asks = [replace(ask, tags=self._tags(ask.tags, 0.7)) for ask in command.asks]
            return replace(command, asks=asks if command.rm_id in self.gangs else [*map(_alone, asks)])
        return command

    def _configured(self, text: str, *, starts: bool) -> str:
        document = json.loads(text)
        for partition in document["partitions"]:
            (root,) = partition["queues"]
            root["properties"] = {**root.get("properties", {}), **self._properties()}
            if not starts:
                root["properties"].setdefault("backfill", "easy")
            if self._orders.random() < self._shortest:
                until = self._orders.choice(["0s", "0s", "3s", "40s"])
                order = {"backfill": "easy", "backfill.order": "shortest", "backfill.order.until": until}
                root["properties"] = {**root["properties"], **order}
                for queue in _with_templates(root):
                    queue.get("properties", {}).pop("application.sort.policy", None)
            for queue in () if starts else (root, *_templates(root)):
                queue["properties"] = {**queue.get("properties", {}), "reserve.after": NEVER}
        return json.dumps(document)

    def _bounded(self, text: str) -> str:
        """The configuration with other, drawn maxima."""
        document = json.loads(text)
        for partition in document["partitions"]:
            for queue in partition["queues"][0].get("queues", []):
                self._bound(queue, {})
        return json.dumps(document)

    def _bound(self, queue: dict[str, Any], above: Mapping[str, int]) -> None:
        """Give the queue and those below it low maxima and no guarantees; `above` is its parent's maximum."""
        rng, most = self._bounds, dict(above)
        for name, typical in TYPES.items() if rng.random() < self._maxima else ():
            if rng.random() < 0.5:
                low = rng.choice([1, 2, 3, 4, 6]) * typical
                most[name] = min(low, above.get(name, low))
        queue["resources"] = {"max": written(most)} if most else {}
        for child in queue.get("queues", []):
            self._bound(child, most)

    def _properties(self) -> dict[str, Any]:
        rng = self.rng
        if rng.random() < 0.1:
            return {}
        properties = {"backfill": rng.choice(["easy", "easy", "conservative"])}
        if rng.random() < 0.3:
            properties["reserve.after"] = rng.choice(["0s", "700ms", "3s", "10s"])
        return properties

    def _tags(self, tags: Mapping[str, str], share: float) -> Mapping[str, str]:
        if "foreign" in tags or self.rng.random() >= share:
            return tags
        return {**tags, RUNTIME: str(self.rng.choice(RUNTIMES))}


def _single(new: NewApplication) -> NewApplication:
    """The application without its gang."""
    return replace(new, placeholder_ask={})


def _alone(ask: Ask) -> Ask:
    return replace(ask, placeholder=False, task_group="")


def _with_templates(queue: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The queue and its descendants, each with its template."""
    yield queue
    if "childtemplate" in queue:
        yield queue["childtemplate"]
    for child in queue.get("queues", []):
        yield from _with_templates(child)


def _templates(queue: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Set the templates of a queue and those below it, because dynamic queues inherit no properties."""
    if "childtemplate" in queue:
        yield queue["childtemplate"]
    for child in queue.get("queues", []):
        yield from _templates(child)
