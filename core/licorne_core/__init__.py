"""The scheduler core: a deterministic state machine that reads no clock, file or socket."""
