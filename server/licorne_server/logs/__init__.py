"""Logs: one JSON object a line on stderr, control characters escaped, nothing on stdout.

Logging never waits and never fails: a line that cannot be written is dropped and counted.
"""

from licorne_server.logs.levels import levels
from licorne_server.logs.process import ProcessLogs, dropped, process_logs
from licorne_server.logs.setting import set_up

__all__ = ["ProcessLogs", "dropped", "levels", "process_logs", "set_up"]
