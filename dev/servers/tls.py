"""An authority of one's own, as companies have them, and certificates of a server and a client that it has signed."""

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Authority:
    """Files of an authority, of a server on `localhost` and 127.0.0.1, and of a client.

    Attributes:
        file: the authority's certificate, in PEM.
        server: the server's key and certificate, in PEM.
        client: the same of the client.
    """

    file: Path
    server: Path
    client: Path

    @property
    def context(self) -> ssl.SSLContext:
        """That of the server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server)
        return context


def authority_in(folder: Path) -> Authority:
    """Make an authority and certificates of its server and client, good for a day, in a folder."""
    authority = Authority(*(folder / f"{name}.pem" for name in ("authority", "server", "client")))
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = _named("an authority of our own")
    root = _builder(issuer, issuer, key).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    authority.file.write_bytes(root.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    names = [
        x509.DNSName("localhost"),
        x509.DNSName("store.invalid"),
        x509.DNSName("*.store.invalid"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    for file, name, others in ((authority.server, "localhost", names), (authority.client, "a client", names[:1])):
        own = ec.generate_private_key(ec.SECP256R1())
        leaf = _builder(_named(name), issuer, own).add_extension(x509.SubjectAlternativeName(others), critical=False)
        private = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.touch(mode=0o600)  # libpq demands it of a key
        file.write_bytes(private + leaf.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return authority


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
    )
