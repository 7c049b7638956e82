"""Kinds of commands and effects, including those of extensions."""

from typing import Any, get_args

from licorne_core.features import modules
from licorne_core.messages.commands import ExtensionAnswer, ExtensionCommand, SharedCommand
from licorne_core.messages.effects import ExtensionEffect


def kinds_of(union: Any) -> set[type]:
    """The classes of a union. A base class of extensions stands for theirs."""
    found: set[type] = set(get_args(union))
    for base in {ExtensionAnswer, ExtensionCommand, SharedCommand, ExtensionEffect} & found:
        found.discard(base)
        for _, module in modules("messages"):
            found |= {kind for kind in vars(module).values() if _is_below(kind, base)}
    return found


def _is_below(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base) and kind is not base
