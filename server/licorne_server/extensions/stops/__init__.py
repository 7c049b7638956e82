"""Stops of applications in the journal."""

from licorne_core.extensions.stops.messages import ApplicationStopped, StopApplication
from licorne_server.journal.forms import TEXT, Row

COMMANDS = (Row(StopApplication, rm_id=TEXT, partition=TEXT, app_id=TEXT, reason=TEXT),)
SUMMED = {ApplicationStopped: {"allocations": None, "asks": None}}
