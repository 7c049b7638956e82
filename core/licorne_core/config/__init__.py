"""The configuration: its frozen tree, its parser, its validation, its queue properties."""
