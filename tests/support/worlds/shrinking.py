"""Reduces a failing script to the relevant steps, and prints it.

Only the unusual parts of a command are printed.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from typing import Any

import yaml

from licorne_core.config import submitted
from licorne_core.config.schema import Configuration
from licorne_core.messages.commands import (
    Command,
    RegisterRm,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from licorne_core.values.asks import AskClass
from support.oracle.config import text_of
from support.worlds.playing import Step


def shrink(script: Sequence[Step], fails: Callable[[Sequence[Step]], bool]) -> list[Step]:
    """A small script that still fails, found by leaving out steps, and then items and settings of steps."""
    smallest = _without_steps(list(script), fails)
    for number in range(len(smallest)):
        smallest = _without_items(smallest, number, fails)
        smallest = _without_settings(smallest, number, fails)
    return _without_steps(smallest, fails)


def _without_steps(script: list[Step], fails: Callable[[Sequence[Step]], bool]) -> list[Step]:
    size = max(1, len(script) // 2)
    while size:
        start = 0
        while start < len(script):
            shorter = script[:start] + script[start + size :]
            if fails(shorter):
                script = shorter
            else:
                start += size
        size //= 2
    return script


def _without_items(script: list[Step], number: int, fails: Callable[[Sequence[Step]], bool]) -> list[Step]:
    """Leave out single nodes, applications, asks and releases of one step."""
    index = 0
    while index < _size(script[number].command):
        now, command = script[number]
        shorter = [*script]
        shorter[number] = Step(now, _without_item(command, index))
        if fails(shorter):
            script = shorter
        else:
            index += 1
    return script


def _size(command: Command | None) -> int:
    match command:
        case UpdateNodes(nodes=nodes):
            return len(nodes)
        case UpdateApplications(new=new, remove=remove):
            return len(new) + len(remove)
        case UpdateAllocations(asks=asks, releases=releases):
            return len(asks) + len(releases)
        case _:
            return 0


def _without_item(command: Command | None, index: int) -> Command | None:
    match command:
        case UpdateNodes(nodes=nodes):
            return replace(command, nodes=[*nodes[:index], *nodes[index + 1 :]])
        case UpdateApplications(new=new) if index < len(new):
            return replace(command, new=[*new[:index], *new[index + 1 :]])
        case UpdateApplications(new=new, remove=remove):
            index -= len(new)
            return replace(command, remove=[*remove[:index], *remove[index + 1 :]])
        case UpdateAllocations(asks=asks) if index < len(asks):
            return replace(command, asks=[*asks[:index], *asks[index + 1 :]])
        case UpdateAllocations(asks=asks, releases=releases):
            index -= len(asks)
            return replace(command, releases=[*releases[:index], *releases[index + 1 :]])
        case _:
            return command


def _without_settings(script: list[Step], number: int, fails: Callable[[Sequence[Step]], bool]) -> list[Step]:
    """Leave out parts of one step's configuration, as long as the remainder is valid."""
    command = script[number].command
    if not isinstance(command, RegisterRm | UpdateConfiguration):
        return script
    if not isinstance(command.config, Configuration):
        return script
    index = 0
    while True:
        tree = json.loads(text_of(command))
        if index >= len(_places(tree)):
            return script
        holder, name = _places(tree)[index]
        del holder[name]
        config = submitted(json.dumps(tree))
        smaller = replace(command, config=config)
        shorter = [*script]
        shorter[number] = Step(script[number].now, smaller)
        if isinstance(config, Configuration) and fails(shorter):
            script, command = shorter, smaller
        else:
            index += 1


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """The keys of every mapping and the positions of every list, the outermost first.

    Keys that the oracle requires are left out.
    """
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    keys = [key for key in keys if key not in ("name", "parent", "submitacl")]
    inside = [tree[key] for key in keys if isinstance(tree[key], dict | list)]
    return [(tree, key) for key in keys] + [place for part in inside for place in _places(part)]


def shown(script: Sequence[Step]) -> str:
    """All steps; a configuration is printed in lines."""
    return "\n".join(_step(step) for step in script)


def _step(step: Step) -> str:
    command = step.command
    if isinstance(command, RegisterRm | UpdateConfiguration):
        config = yaml.safe_dump(yaml.safe_load(text_of(command)), sort_keys=False)
        return f"{step.now}: {brief(replace(command, config=None))}\n{config}"
    return f"{step.now}: {'rest' if command is None else brief(command)}"


def brief(value: Any) -> str:
    """A value without the fields that have their default."""
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
