"""The configuration: its frozen tree, its parser, its validation, its queue properties."""

from licorne_core.config.load import (
    DEFAULT_CONFIG,
    InvalidConfiguration,
    SubmittedConfig,
    built_in,
    checksum_of,
    load,
    submitted,
)

__all__ = [
    "DEFAULT_CONFIG",
    "InvalidConfiguration",
    "SubmittedConfig",
    "built_in",
    "checksum_of",
    "load",
    "submitted",
]
