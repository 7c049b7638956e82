"""Reports for readers, by subject; `Views` finds the objects for them."""

from licorne_core.views.applications import InOrder
from licorne_core.views.audit.recount import Concern, Finding
from licorne_core.views.census import Standing
from licorne_core.views.lookup import Views

__all__ = ["Concern", "Finding", "InOrder", "Standing", "Views"]
