"""Log lines about accepted configurations that are probably mistakes."""

import structlog

from licorne_core.config import SubmittedConfig
from licorne_core.config.schema import Configuration

log = structlog.get_logger("core.configurations.warnings")

MOST_TOLD = 10
"""Warnings of one configuration that its line has; the others are counted."""


def tell_warnings(rm_id: str, config: SubmittedConfig) -> None:
    """Log the dubious parts of a configuration that has come into force, if any."""
    if isinstance(config, Configuration) and config.warnings:
        log.warning(
            "configuration has warnings",
            rm_id=rm_id,
            number=len(config.warnings),
            warnings=list(config.warnings[:MOST_TOLD]),
        )
