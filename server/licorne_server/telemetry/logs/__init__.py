"""Logs on stderr: an object of JSON a line, or text on a terminal. Nothing goes to stdout.

Logging never waits and never fails: a line that cannot be written is dropped and counted.
"""

from licorne_server.telemetry.logs.levels import levels
from licorne_server.telemetry.logs.names import level_problem, takes_level
from licorne_server.telemetry.logs.process import (
    FORMATS,
    ProcessLogs,
    dropped,
    note_lost,
    process_logs,
)
from licorne_server.telemetry.logs.setting import set_up

__all__ = [
    "FORMATS",
    "ProcessLogs",
    "dropped",
    "level_problem",
    "levels",
    "note_lost",
    "process_logs",
    "set_up",
    "takes_level",
]
