"""Reports for those who look, by what is read; `Views` is the door to them all."""

from licorne_core.views.door import Views

__all__ = ["Views"]
