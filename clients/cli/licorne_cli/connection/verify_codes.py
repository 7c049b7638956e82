"""OpenSSL's codes for certificates that it does not take (`ssl.SSLCertVerificationError`)."""

OTHER_NAME = frozenset({62, 64})
"""It is for another host, or for another address."""

OF_NO_AUTHORITY = frozenset({2, 18, 19, 20, 21})
"""No authority that is trusted stands for it."""
