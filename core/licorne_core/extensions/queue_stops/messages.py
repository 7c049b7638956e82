"""The command that stops a queue, and its outcome."""

from dataclasses import dataclass

from licorne_core.messages.commands import ExtensionCommand
from licorne_core.messages.effects import ExtensionEffect
from licorne_core.messages.operators import UNKNOWN_MARK, OperatorMark


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQueueStopped(ExtensionCommand):
    """An operator stops a queue, or starts it again (spec § 4.2)."""

    partition: str
    queue: str
    stopped: bool
    mark: OperatorMark = UNKNOWN_MARK


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStoppedSet(ExtensionEffect):
    """A queue is stopped, or started; `state` is its new state."""

    changed: bool
    state: str
