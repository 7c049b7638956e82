"""The parser and its commands, types of arguments, and completion by shells."""
