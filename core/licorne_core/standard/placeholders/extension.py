"""Placeholders in one partition."""

from typing import Final

from licorne_core.points import Extension
from licorne_core.scheduling.rules import CheckContext
from licorne_core.standard.placeholders.stage import Replacing


class PlaceholderReplacements(Extension):
    """Finds real asks that replace placeholders."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without placeholders."""
        super().__init__(name, bit, context)
        self.stages = (Replacing(context),)


KIND: Final = PlaceholderReplacements
