"""TLS of a command: its options, and the files that they name.

The files are checked before they are used: gRPC takes anything, and says later, in many lines of
its own, that there is no connection.
"""

import argparse
import ssl
from pathlib import Path

import grpc

from licorne.options import TlsConfig

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
