"""HTTP next to gRPC: probes, metrics, and the REST reads that users' tools know (spec § 12.4).

All but `ui/acts.py` only reads: the core through its views, the server through `Figures`. It runs in
the event loop of the engine, between the engine's turns.
"""

from licorne_server.http.app import HttpServer

__all__ = ["HttpServer"]
