"""TLS for the gRPC port.

Certificates are read again when their files change. Clients are checked if there is a CA for them.
"""

import ssl
from pathlib import Path

import grpc
import structlog

from licorne_server.settings import SettingsError, Tls

log = structlog.get_logger(__name__)


class Certificates:
    """The certificate files, read again when they change."""

    def __init__(self, tls: Tls) -> None:
        """Read them.

        Raises:
            SettingsError: a file cannot be read, or is not usable.
        """
        self._tls = tls
        try:
            self._seen = self._stamp()
            self._initial = self._read()
            problem = self._problem()
        except OSError as error:
            raise SettingsError(f"cannot read {error.filename}: {error.strerror}") from None
        if problem:
            raise SettingsError(problem)

    def credentials(self) -> grpc.ServerCredentials:
        """Credentials that check for changed files at every handshake."""
        return grpc.dynamic_ssl_server_credentials(
            self._initial,
            self._fetch,  # type: ignore[arg-type]  # the stubs do not know that None is allowed
            require_client_authentication=self._tls.client_ca is not None,
        )

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """The changed files; None to keep what is in use. Called on a thread of grpc's."""
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return None
            configuration = self._read()
            problem = self._problem()
        except OSError as error:
            log.warning("certificate not read", file=str(error.filename))
            return None
        # Unusable files, perhaps half of a new pair, are tried again when they change again.
        self._seen = stamp
        if problem:
            log.warning("certificate not usable", reason=problem)
            return None
        log.info("certificate reloaded", file=str(self._tls.cert))
        return configuration

    def _files(self) -> list[Path]:
        files = [self._tls.cert, self._tls.key]
        return files if self._tls.client_ca is None else [*files, self._tls.client_ca]

    def _stamp(self) -> list[tuple[int, int]]:
        return [(status.st_mtime_ns, status.st_ino) for status in map(Path.stat, self._files())]

    def _read(self) -> grpc.ServerCertificateConfiguration:
        client_ca = self._tls.client_ca
        return grpc.ssl_server_certificate_configuration(
            [(self._tls.key.read_bytes(), self._tls.cert.read_bytes())],
            root_certificates=None if client_ca is None else client_ca.read_bytes(),
        )

    def _problem(self) -> str:
        """Why the files are not usable, or the empty text. grpc itself takes anything silently."""
        tls, context = self._tls, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        what = f"--tls-cert {tls.cert}, --tls-key {tls.key}"
        try:
            # A password is given because it would be asked for on the terminal otherwise.
            context.load_cert_chain(tls.cert, tls.key, password="")
            if tls.client_ca is not None:
                what = f"--tls-client-ca {tls.client_ca}"
                context.load_verify_locations(tls.client_ca)
        except ssl.SSLError as error:
            return f"{what}: not usable as PEM: {error}"
        return ""
