"""HTTP next to gRPC: probes, metrics, and the REST reads for which users have tools (spec § 12.4).

All modules but `ui/acts.py` only read: the core through its views, the server through `Figures`. They run in
the event loop of the engine, between the engine's turns.
"""

from licorne_server.http.app import HttpServer

__all__ = ["HttpServer"]
