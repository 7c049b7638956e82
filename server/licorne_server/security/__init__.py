"""Who calls, and what that caller may: certificates, tokens, connections and rights.

In: a call with its peer. Out: an identity, or a refusal that tells nothing of others. `access.py` says
who may speak for which RM, `openings.py` ends what a right had opened, `tls.py` reads certificates again.

Caller: `services/` and `http/`.
"""
