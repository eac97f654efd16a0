"""A real SMTP server with TLS and a log-in, which keeps the mails that it gets."""

import datetime as dt
import ipaddress
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dev.servers.process import free_ports

PASSWORD = "of-the-mail-server"


@dataclass
class MailServer:
    """The server.

    Attributes:
        port: of 127.0.0.1.
        security: `ssl` or `starttls`.
        mails: that it got, each with its receivers.
    """

    port: int
    security: str
    mails: list[tuple[list[str], Message]] = field(default_factory=list)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        self.mails.append((envelope.rcpt_tos, message_from_bytes(envelope.content)))
        return "250 OK"


def certificate(folder: Path) -> Path:
    """A file with a key and its certificate for `localhost`, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "localhost.pem"
    file.write_bytes(private + signed.public_bytes(pem))
    return file


@contextmanager
def running_mail_server(folder: Path, security: str) -> Iterator[MailServer]:
    """A server that accepts one user's mails; its certificate is in the file `localhost.pem` of the folder."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate(folder))

    def log_in(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        is_right = isinstance(data, LoginPassword) and data.password == PASSWORD.encode()
        return AuthResult(success=is_right, handled=is_right)

    server = MailServer(free_ports(1)[0], security)
    tls = {"ssl_context": context} if security == "ssl" else {"tls_context": context, "require_starttls": True}
    controller = Controller(
        server,
        hostname="127.0.0.1",
        port=server.port,
        authenticator=log_in,
        auth_required=True,
        auth_require_tls=security != "ssl",
        **tls,
    )
    controller.start()
    yield server
    controller.stop()


@pytest.fixture(params=["ssl", "starttls"])
def mail_server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MailServer]:
    """A server of each kind of TLS, whose certificate clients of this process trust."""
    with running_mail_server(tmp_path, request.param) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "localhost.pem"))
        yield server
