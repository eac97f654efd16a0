"""An authority of one's own, as companies have them, and the certificate of a server that it has signed."""

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
    """Files of an authority, and of a server on `localhost` and 127.0.0.1.

    Attributes:
        file: the authority's certificate, in PEM.
        server: the server's key and certificate, in PEM.
    """

    file: Path
    server: Path

    @property
    def context(self) -> ssl.SSLContext:
        """That of the server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server)
        return context


def authority_in(folder: Path) -> Authority:
    """Make an authority and its server's certificate, good for a day, in a folder."""
    authority = Authority(folder / "authority.pem", folder / "server.pem")
    key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority of our own")])
    root = _builder(issuer, issuer, key).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    names = [
        x509.DNSName("localhost"),
        x509.DNSName("store.invalid"),
        x509.DNSName("*.store.invalid"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    leaf = _builder(subject, issuer, server_key).add_extension(x509.SubjectAlternativeName(names), critical=False)
    authority.file.write_bytes(root.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    private = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate = leaf.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    authority.server.write_bytes(private + certificate)
    return authority


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
    )
