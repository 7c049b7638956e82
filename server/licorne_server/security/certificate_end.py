"""End of validity of the server's certificate.

Python shows the fields of a certificate only after checking it at a handshake. So the server shakes
hands with itself, in memory and with the certificate as its own authority.
"""

import ssl
from contextlib import suppress
from pathlib import Path

import structlog

from licorne_server.process.settings import Tls

log = structlog.get_logger("core.certificate_end")

_ROUNDS = 4
"""Turns of both sides; a handshake needs two."""

_ANY_TIME = 0x200000
"""OpenSSL's flag by which certificates that are over are read as well."""


class CertificateEnd:
    """The end of a certificate in a file; the file is read again when it has changed."""

    def __init__(self, tls: Tls | None) -> None:
        """Read nothing yet."""
        self._tls = tls
        self._stamp = (0, 0)
        self._end = 0.0

    def time(self) -> float:
        """End of validity, in unix seconds; 0 without TLS, and for a file that cannot be read."""
        if self._tls is None:
            return 0.0
        try:
            status = self._tls.cert.stat()
            if (status.st_mtime_ns, status.st_ino) != self._stamp:
                self._stamp = (status.st_mtime_ns, status.st_ino)
                self._end = _end_of(self._tls.cert, self._tls.key)
        except (OSError, ValueError) as error:
            log.warning("end of certificate not read", reason=str(error))
            self._end = 0.0
        return self._end


def _end_of(cert: Path, key: Path) -> float:
    """End of the certificate, in unix seconds; OSError or ValueError if it is unusable."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key, password="")
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.load_verify_locations(cert)
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _ANY_TIME
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server)
    sides = (asking, server.wrap_bio(to_server, to_client, server_side=True))
    for _ in range(_ROUNDS):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    fields = asking.getpeercert()
    if not fields:
        raise ValueError(f"{cert} was not shown")
    return float(ssl.cert_time_to_seconds(str(fields["notAfter"])))
