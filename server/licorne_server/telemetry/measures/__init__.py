"""Measures of a running server: numbers only, which a scrape writes down later."""

from licorne_server.telemetry.measures.calls import Calls
from licorne_server.telemetry.measures.checks import CheckTimes
from licorne_server.telemetry.measures.histogram import Histogram
from licorne_server.telemetry.measures.of_rm import RmMeasures

__all__ = ["Calls", "CheckTimes", "Histogram", "RmMeasures"]
