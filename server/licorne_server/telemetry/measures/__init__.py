"""Measures of a running server: numbers only, which a scrape writes down later."""

from licorne_server.telemetry.measures.of_rm import Calls, CheckTimes, Histogram, RmMeasures

__all__ = ["Calls", "CheckTimes", "Histogram", "RmMeasures"]
