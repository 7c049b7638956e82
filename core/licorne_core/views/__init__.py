"""Reports for readers, by subject: they are made on demand, and change nothing (DESIGN § 2)."""

from licorne_core.views.applications import AppViews
from licorne_core.views.audit.recount import Concern, Finding
from licorne_core.views.census import Standing
from licorne_core.views.nodes import NodeViews
from licorne_core.views.partitions import InOrder
from licorne_core.views.queues import QueueViews
from licorne_core.views.readings import ReadingViews

__all__ = ["Concern", "Finding", "InOrder", "Standing", "Views"]


class Views(AppViews, NodeViews, QueueViews, ReadingViews):
    """Reports of all kinds."""
