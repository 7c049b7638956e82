"""The commands of `licorne`: a module each, with `add_arguments(parser)` and `run(args) -> int`."""
