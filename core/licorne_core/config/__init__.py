"""The configuration: its frozen tree, its parser, its validation, its queue properties."""

from licorne_core.config.load import DEFAULT_CONFIG, checksum_of, load

__all__ = ["DEFAULT_CONFIG", "checksum_of", "load"]
