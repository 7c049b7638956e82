"""Draws backfill: the properties of root, and the runtimes that applications and asks declare."""

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from licorne_core.config import submitted
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

RUNTIMES = [1, 2, 3, 5, 8, 8, 20, 60, 600]
"""Seconds that asks say they run; in worlds mostly a few seconds pass at a time."""

SHARE = 0.3
"""Share of RMs with backfill in worlds that do not say."""


class BackfillMaker:
    """Adds backfill to the commands of a world, from a source of its own: all else stays as drawn."""

    def __init__(self, seed: int, rms: list[str], share: float) -> None:
        """Draw the RMs that have it: a `share` of them."""
        self.rng = Random(f"backfill {seed}")
        self.rms = [rm for rm in rms if self.rng.random() < share]

    def marking(self, command: Command) -> Command:
        """The command, with backfill if it is of an RM that has it."""
        if isinstance(command, RegisterRm | UpdateConfiguration) and command.rm_id in self.rms:
            return replace(command, config=submitted(self._configured(text_of(command))))
        if isinstance(command, UpdateApplications) and command.rm_id in self.rms:
            return replace(command, new=[self._single(new) for new in command.new])
        if isinstance(command, UpdateAllocations) and command.rm_id in self.rms:
            return replace(command, asks=[self._alone(ask) for ask in command.asks])
        return command

    def _single(self, new: NewApplication) -> NewApplication:
        """The application without its gang: the oracle places no whole gangs."""
        return replace(new, tags=self._tags(new.tags, 0.3), placeholder_ask={})

    def _alone(self, ask: Ask) -> Ask:
        return replace(ask, tags=self._tags(ask.tags, 0.7), placeholder=False, task_group="")

    def _configured(self, text: str) -> str:
        document = json.loads(text)
        for partition in document["partitions"]:
            (root,) = partition["queues"]
            root["properties"] = {**root.get("properties", {}), **self._properties()}
        return json.dumps(document)

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
