"""Reasons why a certificate is refused, with advice. Imports no gRPC, because that is slow."""

import ssl

TRUST = "--tls-ca FILE says whom to trust"

_OTHER_HOST = frozenset({62, 64})
"""OpenSSL's codes for a certificate of another host name or address."""

_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's codes for a certificate that no trusted authority has signed."""


def refused_because(error: ssl.SSLCertVerificationError) -> str:
    """The problem with a certificate as the second half of a sentence, with advice if there is any."""
    if error.verify_code in _OTHER_HOST:
        return "is for another name: --tls-server-name NAME says which one to expect"
    if is_of_unknown_authority(error):
        return f"is not trusted, {error.verify_message}: {TRUST}"
    return f"is not taken: {error.verify_message}"


def is_of_unknown_authority(error: ssl.SSLCertVerificationError) -> bool:
    """True if no trusted authority has signed the certificate."""
    return error.verify_code in _UNKNOWN_AUTHORITY
