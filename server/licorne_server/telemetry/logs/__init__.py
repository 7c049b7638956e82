"""Logs on stderr: one JSON object on each line, or text on a terminal. Nothing is written to stdout.

Logging never waits and never fails: a line that cannot be written is dropped and counted.
"""

from licorne_server.telemetry.logs.levels import level_problem, levels, takes_level
from licorne_server.telemetry.logs.process import FORMATS, dropped, process_logs, set_up

__all__ = [
    "FORMATS",
    "dropped",
    "level_problem",
    "levels",
    "process_logs",
    "set_up",
    "takes_level",
]
