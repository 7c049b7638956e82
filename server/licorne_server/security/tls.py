"""TLS of both ports: certificate files, which are reloaded when they change, and the end of their validity.

Client certificates are checked if the settings have a CA for clients.
"""

import ssl
from contextlib import suppress
from pathlib import Path

import grpc
import structlog

from licorne_server.process.settings import SettingsError, Tls

log = structlog.get_logger("core.tls")
end_log = structlog.get_logger("core.certificate_end")

NO_PASSWORD = ""
"""Password for encrypted keys; without one OpenSSL would ask on the terminal."""


class _UnusableError(Exception):
    """Certificate files that cannot be used; the text is the reason."""


class TlsFiles:
    """Certificate files, and the detection of their changes."""

    def __init__(self, tls: Tls) -> None:
        """Read and check the files.

        Raises:
            SettingsError: a file cannot be read, or is not usable.
        """
        self.tls = tls
        try:
            self._seen = self._stamps()
            problem = self._problem()
        except OSError as error:
            raise SettingsError(f"cannot read {error.filename}: {error.strerror}") from None
        if problem:
            raise SettingsError(problem)

    def have_changed(self) -> bool:
        """True if the files are usable and have changed since the last call.

        Unusable files, such as a new certificate with an old key, are read again after their next change.
        """
        try:
            stamps = self._stamps()
            if stamps == self._seen:
                return False
            problem = self._problem()
        except OSError as error:
            log.warning("certificate not read", file=str(error.filename))
            return False
        self._seen = stamps
        if problem:
            log.warning("certificate not usable", reason=problem)
            return False
        log.info("certificate reloaded", file=str(self.tls.cert))
        return True

    def load_into(self, context: ssl.SSLContext) -> None:
        """Load the files into a context.

        Raises:
            OSError: a file cannot be read.
            _UnusableError: a file's content is unusable; the text names the key.
        """
        tls = self.tls
        what = f"server.tls_cert {tls.cert}, server.tls_key {tls.key}"
        try:
            context.load_cert_chain(tls.cert, tls.key, password=NO_PASSWORD)
            if tls.client_ca is not None:
                what = f"server.tls_client_ca {tls.client_ca}"
                context.load_verify_locations(tls.client_ca)
        except ssl.SSLError as error:
            raise _UnusableError(f"{what}: not usable as PEM: {error}") from None

    def _stamps(self) -> list[tuple[int, int]]:
        files = (self.tls.cert, self.tls.key, self.tls.client_ca)
        return [_stamp(file) for file in files if file is not None]

    def _problem(self) -> str:
        """The problem of the files, or an empty text. gRPC itself reports no problem."""
        try:
            self.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        except _UnusableError as error:
            return str(error)
        return ""


def grpc_credentials(tls: Tls) -> grpc.ServerCredentials:
    """Credentials from the certificate files for gRPC, which checks for changes at every handshake.

    Raises:
        SettingsError: a file cannot be read, or is not usable.
    """
    files = TlsFiles(tls)

    def read() -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration(
            [(tls.key.read_bytes(), tls.cert.read_bytes())],
            root_certificates=None if tls.client_ca is None else tls.client_ca.read_bytes(),
        )

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        """The changed files; None to keep the current ones. Called in a thread of gRPC."""
        if not files.have_changed():
            return None
        try:
            return read()
        except OSError as error:  # the files have just changed again
            log.warning("certificate not read", file=str(error.filename))
            return None

    return grpc.dynamic_ssl_server_credentials(
        read(),
        fetch,  # type: ignore[arg-type]  # the stubs do not know that None is allowed
        require_client_authentication=tls.client_ca is not None,
    )


def member_credentials(tls: Tls | None, member_ca: Path | None) -> grpc.ChannelCredentials | None:
    """Credentials for a connection to another member; None without TLS.

    The server presents its own certificate as a client. The other member's certificate is verified with
    `member_ca`, or else with the CA of clients, or else with the system's CAs.

    Raises:
        OSError: a file cannot be read.
    """
    if tls is None:
        return None
    ca = member_ca or tls.client_ca
    return grpc.ssl_channel_credentials(
        root_certificates=None if ca is None else ca.read_bytes(),
        private_key=tls.key.read_bytes(),
        certificate_chain=tls.cert.read_bytes(),
    )


class Certificates:
    """Certificate files for TLS on connections of the loop."""

    def __init__(self, tls: Tls, protocol: str, checked: ssl.VerifyMode = ssl.CERT_OPTIONAL) -> None:
        """Read the files. `protocol` is the ALPN name of the protocol that clients have to use.

        `checked` is how certificates are verified, if there is a CA of clients. Over HTTP they are optional,
        because probes have none: `http/identity.py` determines the rights of clients without a certificate.

        Raises:
            SettingsError: a file cannot be read, or is not usable.
        """
        self._files = TlsFiles(tls)
        self._protocol = protocol
        self._checked = checked
        self._context = self._made()

    def context(self) -> ssl.SSLContext:
        """The context of the next handshake; called once for each handshake."""
        if self._files.have_changed():
            try:
                self._context = self._made()
            except (OSError, _UnusableError) as error:  # the files have just changed again
                log.warning("certificate not usable", reason=str(error))
        return self._context

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols([self._protocol])
        if self._files.tls.client_ca is not None:
            context.verify_mode = self._checked
        self._files.load_into(context)
        return context


_ROUNDS = 4
"""Maximum number of turns of both sides; a handshake needs two."""

_ANY_TIME = 0x200000
"""OpenSSL's flag to accept expired certificates."""


class CertificateEnd:
    """End of validity of the certificate in a file, which is read again after a change.

    Python returns the fields of a certificate only after a verified handshake. So the server performs a
    handshake with itself, in memory, with the certificate as its own authority.
    """

    def __init__(self, tls: Tls | None) -> None:
        """Create the object; no file is read yet."""
        self._tls = tls
        self._seen = (0, 0)
        self._end = 0.0

    def time(self) -> float:
        """End of validity in unix seconds; 0 without TLS, or for an unreadable file."""
        if self._tls is None:
            return 0.0
        try:
            stamp = _stamp(self._tls.cert)
            if stamp != self._seen:
                self._seen = stamp
                self._end = _end_of(self._tls.cert, self._tls.key)
        except (OSError, ValueError) as error:
            end_log.warning("end of certificate not read", reason=str(error))
            self._end = 0.0
        return self._end


def _end_of(cert: Path, key: Path) -> float:
    """End of validity in unix seconds; raises OSError or ValueError for an unusable certificate."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key, password=NO_PASSWORD)
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


def _stamp(file: Path) -> tuple[int, int]:
    """Modification time and inode of a file; raises OSError if it cannot be read."""
    status = file.stat()
    return status.st_mtime_ns, status.st_ino
