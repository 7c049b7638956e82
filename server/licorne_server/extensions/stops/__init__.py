"""Stops of applications in the journal."""

from licorne.v1 import admin_pb2 as pb
from licorne_core.extensions.stops.messages import ApplicationStopped, StopApplication
from licorne_server.engine.journal.forms import TEXT, Row

COMMANDS = (Row(StopApplication, rm_id=TEXT, partition=TEXT, app_id=TEXT, reason=TEXT),)
SUMMED = {ApplicationStopped: {"allocations": None, "asks": None}}

CALLS = {"StopApplication": (pb.StopApplicationRequest, pb.StopApplicationResponse)}
ACTS = {"kill": {"method": "StopApplication", "name": "application_id", "message": "reason"}}
