"""Authentication and rights of callers: certificates, tokens and connections.

In: a call with its peer. Out: an identity, or a refusal that reveals nothing about other RMs. `access.py` has
the rights of callers, and ends the streams of callers that have lost a required right. `tls.py` reloads
certificates.

Callers: `services/`, `http/`, `rms/` and `transport/`.
"""
