"""A certificate authority for tests, and certificates that it signs, as PEM."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

_FROM = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_UNTIL = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Signed:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def format_certificate(self) -> str:
        """The certificate as PEM."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def format_key(self, password: str | None = None) -> str:
        """The key as PEM, in PKCS 8."""
        encryption: KeySerializationEncryption = NoEncryption()
        if password is not None:
            encryption = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def write_store(self, path: Path) -> Path:
        """Write key and certificate into one file, as Kafka's brokers and clients read them."""
        path.write_text(self.format_key() + self.format_certificate())
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        """Write key and certificate as PKCS 12."""
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"client", self.key, self.certificate, None, encryption))
        return path


class Authority:
    """Signs certificates; its own is ``signed``."""

    def __init__(self, name: str) -> None:
        self.signed = _sign(name, None, None)

    def sign(self, name: str, address: str | None = None) -> Signed:
        """A certificate for a host of that name or address, or for a client."""
        return _sign(name, address, self.signed)

    def write(self, path: Path) -> Path:
        """Write the authority's certificate, for those who are to trust it."""
        path.write_text(self.signed.format_certificate())
        return path


def _sign(name: str, address: str | None, issuer: Signed | None) -> Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names: list[x509.GeneralName] = [x509.DNSName(name)]
    if address is not None:
        names.append(x509.IPAddress(ipaddress.ip_address(address)))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return Signed(builder.sign(key if issuer is None else issuer.key, hashes.SHA256()), key)
