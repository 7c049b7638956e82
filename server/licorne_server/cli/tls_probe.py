"""Does a server that cannot be reached speak TLS after all, or not speak it?"""

import socket
import ssl

PATIENCE = 2.0
"""Seconds that the server may take to answer."""


def tls_advice(target: str, *, tls: bool) -> str:
    """What to do if one side uses TLS and the other does not; empty where that is not the case."""
    speaks = _speaks_tls(target)
    if speaks and not tls:
        return f"{target} speaks TLS: give --tls, or --tls-ca FILE"
    if speaks is False and tls:
        return f"{target} does not speak TLS: leave the TLS options out"
    return ""


def _speaks_tls(target: str) -> bool | None:
    """Whether it answers a TLS handshake; None if it does not say."""
    host, _, port = target.rpartition(":")
    if not port.isdecimal():
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is said to the server, and nothing believed
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except ssl.SSLEOFError:
        return None
    except ssl.SSLError as error:
        # An alert is an answer in TLS too; anything else that came is not.
        return "ALERT" in (error.reason or "")
    except OSError:
        return None
