"""TLS of a command: its options, and the files that they name.

The files are checked before they are used: gRPC takes anything, and says later, in many lines of
its own, that there is no connection.

Advice where TLS is the reason for which a server cannot be reached.

gRPC says it in the words of its libraries, or only that the connection was closed.
"""

import argparse
import socket
import ssl
from pathlib import Path

import grpc

from licorne.options import TlsConfig
from licorne_cli.connection.certificates import refused_because

NO_PASSWORD = ""
"""Given for keys, because OpenSSL would ask for one on the terminal otherwise."""

ALL_KEYS = "DEFAULT:@SECLEVEL=0"
"""OpenSSL's ciphers without its rules for the sizes of keys, which gRPC does not have."""


class TlsFilesError(Exception):
    """A file of the TLS options is of no use; the text names it."""


def tls_of(args: argparse.Namespace) -> TlsConfig | None:
    """The TLS configuration of the options, any of which turns TLS on; None without TLS.

    Raises:
        TlsFilesError: a file cannot be read, or is of no use.
    """
    tls = TlsConfig(
        ca=args.tls_ca,
        certificate=args.tls_cert,
        key=args.tls_key,
        server_name=args.tls_server_name or "",
    )
    if not args.tls and tls == TlsConfig():
        return None
    if (tls.certificate is None) != (tls.key is None):
        raise TlsFilesError("--tls-cert and --tls-key go together")
    if can_be_read_again(tls):
        client_context(tls)
    return tls


def can_be_read_again(tls: TlsConfig) -> bool:
    """False if a file is a pipe or the like, which can be read once only."""
    return all(path.is_file() or not path.exists() for path in _files(tls))


def channel_credentials(tls: TlsConfig) -> grpc.ChannelCredentials:
    """The files as gRPC takes them.

    Raises:
        TlsFilesError: a file cannot be read.
    """
    try:
        return tls.credentials()
    except OSError as error:
        raise _unreadable(error) from None


def client_context(tls: TlsConfig) -> ssl.SSLContext:
    """Python's context with the same files, which judges as gRPC does where it can.

    Without `ca` it trusts the authorities of the system. gRPC may have others of its own.

    Raises:
        TlsFilesError: a file cannot be read, or is of no use.
    """
    what = f"--tls-ca {tls.ca}"
    try:
        for path in _files(tls):
            path.open("rb").close()  # OpenSSL does not say which file it cannot read
        context = ssl.create_default_context(cafile=tls.ca)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.set_ciphers(ALL_KEYS)
        if tls.certificate is not None:
            what = f"--tls-cert {tls.certificate}, --tls-key {tls.key}"
            context.load_cert_chain(tls.certificate, tls.key, password=NO_PASSWORD)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        raise TlsFilesError(f"{what}: not usable as PEM: {reason}") from None
    except OSError as error:
        raise _unreadable(error) from None
    return context


def _files(tls: TlsConfig) -> list[Path]:
    return [path for path in (tls.ca, tls.certificate, tls.key) if path is not None]


def _unreadable(error: OSError) -> TlsFilesError:
    return TlsFilesError(f"cannot read {error.filename}: {error.strerror}")


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
        return f"{target} hangs up: it may want a certificate of yours, give --tls-cert and --tls-key"
    return f"{target} hangs up: it may not trust the certificate in {tls.certificate}"
