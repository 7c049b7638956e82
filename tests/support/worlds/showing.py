"""Scripts for people: a step a line, and of every command only what is out of the ordinary."""

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from typing import Any

import yaml

from licorne_core.messages.commands import RegisterRm, UpdateConfiguration
from licorne_core.values.asks import AskClass
from support.oracle.config import text_of
from support.worlds.playing import Step


def shown(script: Sequence[Step]) -> str:
    """All steps; of a configuration one wants to see the lines."""
    return "\n".join(_step(step) for step in script)


def _step(step: Step) -> str:
    command = step.command
    if isinstance(command, RegisterRm | UpdateConfiguration):
        config = yaml.safe_dump(yaml.safe_load(text_of(command)), sort_keys=False)
        return f"{step.now}: {brief(replace(command, config=None))}\n{config}"
    return f"{step.now}: {'rest' if command is None else brief(command)}"


def brief(value: Any) -> str:
    """A value without the fields that are as they mostly are."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, AskClass) and value.predicate:
        return f"{value!r} of {value.predicate}"
    if is_dataclass(value):
        told = [
            f"{field.name}={brief(getattr(value, field.name))}"
            for field in fields(value)
            if getattr(value, field.name) != _usual(field)
        ]
        return f"{type(value).__name__}({', '.join(told)})"
    if isinstance(value, Iterable) and not isinstance(value, str | dict):
        return f"[{', '.join(brief(part) for part in value)}]"
    return repr(value)


def _usual(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
