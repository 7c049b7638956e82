"""Advice where TLS is the reason for which a server cannot be reached.

gRPC says it in the words of its libraries, or only that the connection was closed.
"""

import socket
import ssl

from licorne.options import TlsConfig
from licorne_cli.connection.tls import TlsFilesError, can_be_read_again, client_context
from licorne_cli.connection.verify_codes import OF_NO_AUTHORITY, OTHER_NAME

PATIENCE = 5.0
"""Seconds that the server may take to answer."""

ABOUT_CERTIFICATES = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE")
"""Parts of the names of alerts by which a server refuses a client's certificate."""


def tls_advice(target: str, tls: TlsConfig | None, patience: float = PATIENCE) -> str:
    """Advice if the two sides do not agree on TLS; empty where that is not known.

    The server may take so many seconds for each step of an answer, or PATIENCE if that is less.
    """
    host, _, port = target.rpartition(":")
    if not port.isdecimal():
        return ""
    address = (host.strip("[]"), int(port))
    patience = min(patience, PATIENCE)
    speaks = _speaks_tls(address, patience)
    if speaks and tls is None:
        return f"{target} speaks TLS: give --tls, or --tls-ca FILE"
    if speaks is False and tls is not None:
        return f"{target} does not speak TLS: leave the TLS options out"
    if not speaks or tls is None or not can_be_read_again(tls):
        return ""
    return _why_they_part(target, address, tls, patience)


def _speaks_tls(address: tuple[str, int], patience: float) -> bool | None:
    """True if it answers a TLS handshake; None if that is not known."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is said to the server, and nothing believed
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(address, timeout=patience) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except ssl.SSLEOFError:
        return None
    except ssl.SSLError as error:
        # An alert is an answer in TLS too; anything else that came is not.
        return "ALERT" in (error.reason or "")
    except (OSError, ValueError):  # the latter for a name that cannot be one of a host
        return None


def _why_they_part(target: str, address: tuple[str, int], tls: TlsConfig, patience: float) -> str:
    """The reason for which one side refuses the other's certificate; empty if not known."""
    try:
        context = client_context(tls)
        context.set_alpn_protocols(["h2"])
        name = tls.server_name or address[0]
        # A name that no host can have is refused here, while there is no socket to leave open.
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=name)
        with (
            socket.create_connection(address, timeout=patience) as plain,
            context.wrap_socket(plain, server_hostname=name) as talk,
        ):
            # HTTP/2 servers speak first. One that does not like the client hangs up instead, as
            # it sees the client's certificate only when the handshake is over.
            hung_up = not talk.recv(1)
    except ssl.SSLCertVerificationError as error:
        return f"the certificate of {target} {refused_because(error)}"
    except ssl.SSLError as error:
        hung_up = any(word in (error.reason or "") for word in ABOUT_CERTIFICATES)
    except (OSError, ValueError, TlsFilesError):
        return ""
    if not hung_up:
        return ""
    if tls.certificate is None:
        return (
            f"{target} hangs up: it may want a certificate of yours, give --tls-cert and --tls-key"
        )
    return f"{target} hangs up: it may not trust the certificate in {tls.certificate}"


def refused_because(error: ssl.SSLCertVerificationError) -> str:
    """The problem of a certificate, and advice where there is any."""
    if error.verify_code in OTHER_NAME:
        return "is for another name: --tls-server-name NAME says which one to expect"
    reason = error.verify_message
    if error.verify_code in OF_NO_AUTHORITY:
        return f"is not trusted, {reason}: --tls-ca FILE says whom to trust"
    return f"is not taken: {reason}"
