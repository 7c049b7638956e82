"""Builders of commands of operators: stops."""

from licorne_core.extensions.stops.messages import StopApplication
from licorne_core.values.ids import AppId, RmId
from support.core.builders import RM


def kill(app_id: str, reason: str = "", *, partition: str = "", rm: str = RM) -> StopApplication:
    """An operator kills an application."""
    return StopApplication(rm_id=RmId(rm), partition=partition, app_id=AppId(app_id), reason=reason)
