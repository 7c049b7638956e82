"""What the RM is told when it should stop something (spec §§ 1.6.10, 6, 9)."""

from licorne_core.apps.application import Application
from licorne_core.apps.requests import Request
from licorne_core.commands import TerminationType
from licorne_core.effects import Release

KEEPING_ON_TIMEOUT = "releasing allocated placeholders on placeholder timeout"
PENDING_ON_TIMEOUT = "releasing pending placeholders on placeholder timeout"
ON_COMPLETION = "releasing placeholders on app complete"
INCOMPATIBLE = "cancel placeholder: resource incompatible"


def make_way(app: Application, placeholder: Request, request: Request) -> Release:
    """A placeholder makes way for a real request (§ 6.5b)."""
    return Release(
        app_id=app.app_id,
        key=placeholder.key,
        termination=TerminationType.PLACEHOLDER_REPLACED,
        message=f"replacing allocationKey: {request.key}",
    )


def time_out(app: Application, request: Request, message: str) -> Release:
    """A placeholder, or an ask, is not wanted any more."""
    return Release(
        app_id=app.app_id,
        key=request.key,
        termination=TerminationType.TIMEOUT,
        message=message,
    )
