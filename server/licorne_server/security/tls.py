"""TLS for both ports: the certificate files, read again when they change.

Clients are checked if there is a CA for them.
"""

import ssl
from pathlib import Path

import grpc
import structlog

from licorne_server.process.settings import SettingsError, Tls

log = structlog.get_logger("core.tls")

NO_PASSWORD = ""
"""Given for keys, because OpenSSL would ask for one on the terminal otherwise."""


class _UnusableError(Exception):
    """The files are unusable; the text is the reason."""


class TlsFiles:
    """The certificate files, and the detection of new ones."""

    def __init__(self, tls: Tls) -> None:
        """Look at them.

        Raises:
            SettingsError: a file cannot be read, or is not usable.
        """
        self.tls = tls
        try:
            self._seen = self._stamp()
            problem = self._problem()
        except OSError as error:
            raise SettingsError(f"cannot read {error.filename}: {error.strerror}") from None
        if problem:
            raise SettingsError(problem)

    def have_changed(self) -> bool:
        """True if there are usable files that were not there at the last call.

        Unusable files, perhaps half of a new pair, are looked at again when they change again.
        """
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return False
            problem = self._problem()
        except OSError as error:
            log.warning("certificate not read", file=str(error.filename))
            return False
        self._seen = stamp
        if problem:
            log.warning("certificate not usable", reason=problem)
            return False
        log.info("certificate reloaded", file=str(self.tls.cert))
        return True

    def load_into(self, context: ssl.SSLContext) -> None:
        """Give the files to a context.

        Raises:
            OSError: a file cannot be read.
            _UnusableError: a file's content is unusable; the text names the option.
        """
        tls = self.tls
        what = f"--tls-cert {tls.cert}, --tls-key {tls.key}"
        try:
            context.load_cert_chain(tls.cert, tls.key, password=NO_PASSWORD)
            if tls.client_ca is not None:
                what = f"--tls-client-ca {tls.client_ca}"
                context.load_verify_locations(tls.client_ca)
        except ssl.SSLError as error:
            raise _UnusableError(f"{what}: not usable as PEM: {error}") from None

    def _stamp(self) -> list[tuple[int, int]]:
        tls = self.tls
        files: list[Path] = [tls.cert, tls.key, *([tls.client_ca] if tls.client_ca else [])]
        return [(status.st_mtime_ns, status.st_ino) for status in map(Path.stat, files)]

    def _problem(self) -> str:
        """The problem of the files, or the empty text. grpc itself takes anything silently."""
        try:
            self.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        except _UnusableError as error:
            return str(error)
        return ""


class GrpcCertificates:
    """The certificate files as gRPC takes them."""

    def __init__(self, tls: Tls) -> None:
        """Read them.

        Raises:
            SettingsError: a file cannot be read, or is not usable.
        """
        self._files = TlsFiles(tls)
        self._tls = tls

    def credentials(self) -> grpc.ServerCredentials:
        """Credentials that check for changed files at every handshake."""
        return grpc.dynamic_ssl_server_credentials(
            self._read(),
            self._fetch,  # type: ignore[arg-type]  # the stubs do not know that None is allowed
            require_client_authentication=self._tls.client_ca is not None,
        )

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """The changed files; None to stay with the current ones. Called on a thread of grpc's."""
        if not self._files.have_changed():
            return None
        try:
            return self._read()
        except OSError as error:  # they have changed again just now
            log.warning("certificate not read", file=str(error.filename))
            return None

    def _read(self) -> grpc.ServerCertificateConfiguration:
        client_ca = self._tls.client_ca
        return grpc.ssl_server_certificate_configuration(
            [(self._tls.key.read_bytes(), self._tls.cert.read_bytes())],
            root_certificates=None if client_ca is None else client_ca.read_bytes(),
        )


class HttpCertificates:
    """The certificate files as HTTP takes them.

    A client need not show a certificate, as probes have none. One that it shows must be good. What
    a client without one may see is for `http/identity.py` to say.
    """

    def __init__(self, tls: Tls) -> None:
        """Read them.

        Raises:
            SettingsError: a file cannot be read, or is not usable.
        """
        self._files = TlsFiles(tls)
        self._context = self._made()

    def context(self) -> ssl.SSLContext:
        """The context of the next handshake; called anew for each."""
        if self._files.have_changed():
            try:
                self._context = self._made()
            except (OSError, _UnusableError) as error:  # they have changed again just now
                log.warning("certificate not usable", reason=str(error))
        return self._context

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        if self._files.tls.client_ca is not None:
            context.verify_mode = ssl.CERT_OPTIONAL
        self._files.load_into(context)
        return context
