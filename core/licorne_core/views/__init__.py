"""Reports for those who look, by what is read; `Views` finds what they are made of."""

from licorne_core.views.audit import Concern, Finding
from licorne_core.views.lookup import Views

__all__ = ["Concern", "Finding", "Views"]
