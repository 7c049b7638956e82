"""TLS of a command: the files of its options, and advice about failed handshakes.

The files are checked before use, because gRPC accepts any file, and later reports only that there is no
connection. Advice is derived from a handshake with `ssl`, because gRPC reports a failed handshake in the
words of its libraries, or as a closed connection.
"""

import argparse
import socket
import ssl
from pathlib import Path

import grpc

from licorne.options import TlsConfig
from licorne_cli.connection.certificates import refused_because

NO_PASSWORD = ""
"""Password for encrypted keys. Without one OpenSSL would ask on the terminal."""

ALL_KEYS = "DEFAULT:@SECLEVEL=0"
"""OpenSSL's ciphers without limits on the sizes of keys, as in gRPC."""


class TlsFilesError(Exception):
    """A file of the TLS options is unusable; the text names it."""


def tls_of(args: argparse.Namespace) -> TlsConfig | None:
    """The TLS configuration of the options, each of which turns TLS on; None without TLS.

    Raises:
        TlsFilesError: a file cannot be read, or is unusable.
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
    """False if a file can be read only once, such as a pipe."""
    return all(path.is_file() or not path.exists() for path in _files(tls))


def channel_credentials(tls: TlsConfig) -> grpc.ChannelCredentials:
    """The files as gRPC's credentials.

    Raises:
        TlsFilesError: a file cannot be read.
    """
    try:
        return tls.credentials()
    except OSError as error:
        raise _unreadable(error) from None


def client_context(tls: TlsConfig) -> ssl.SSLContext:
    """A context of `ssl` with the same files, which verifies as gRPC does as far as possible.

    Without `ca` it trusts the authorities of the system, while gRPC may trust other ones.

    Raises:
        TlsFilesError: a file cannot be read, or is unusable.
    """
    what = f"--tls-ca {tls.ca}"
    try:
        for path in _files(tls):
            path.open("rb").close()  # OpenSSL does not name an unreadable file
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
"""Seconds within which the server has to answer."""

ABOUT_CERTIFICATES = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE")
"""Parts of the names of those TLS alerts that refuse a client's certificate."""


def tls_advice(target: str, tls: TlsConfig | None, patience: float = PATIENCE) -> str:
    """Advice if client and server disagree about TLS; empty if that is unknown.

    `patience` limits each step of the handshake, in seconds; PATIENCE is its maximum.
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
    return _handshake_failure(target, address, tls, patience)


def _speaks_tls(address: tuple[str, int], patience: float) -> bool | None:
    """True if the server answers a TLS handshake; None if unknown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent to the server after the handshake
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
        # An alert is part of TLS; any other answer is not.
        return "ALERT" in (error.reason or "")
    except (OSError, ValueError):  # ValueError for an impossible host name
        return None


def _handshake_failure(target: str, address: tuple[str, int], tls: TlsConfig, patience: float) -> str:
    """The reason why one side refuses the other's certificate; empty if unknown."""
    try:
        context = client_context(tls)
        context.set_alpn_protocols(["h2"])
        name = tls.server_name or address[0]
        # An impossible host name fails here, before there is a socket to close.
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=name)
        with (
            socket.create_connection(address, timeout=patience) as plain,
            context.wrap_socket(plain, server_hostname=name) as talk,
        ):
            # HTTP/2 servers send first. A server that refuses the client closes the connection instead,
            # because it receives the client's certificate only after the handshake.
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
