"""The command of a stop, and its outcome."""

from dataclasses import dataclass

from licorne_core.messages.commands import ExtensionCommand
from licorne_core.messages.effects import ExtensionEffect
from licorne_core.values.ids import AppId


@dataclass(frozen=True, slots=True, kw_only=True)
class StopApplication(ExtensionCommand):
    """An operator ends an application; its RM gets the reason (spec § 5.1.2)."""

    partition: str
    app_id: AppId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationStopped(ExtensionEffect):
    """An application is being stopped: numbers of allocations to stop and of dropped asks."""

    allocations: int
    asks: int
