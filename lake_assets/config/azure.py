"""The connection string of an Azure storage account.

Source: Azure Storage's manual, "Configure Azure Storage connection strings".
"""

import base64
from dataclasses import dataclass, field
from urllib.parse import urlsplit

SUFFIX = "core.windows.net"


@dataclass(frozen=True, slots=True)
class AzureAccess:
    """An account of Azure Storage and its credential: a key, a shared access signature, or the credential chain."""

    account: str
    endpoint: str = ""  # URL of the Blob service without a trailing slash; the account's own when empty
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)  # without a question mark

    @property
    def url(self) -> str:
        """The Blob service's URL."""
        return self.endpoint or f"https://{self.account}.blob.{SUFFIX}"

    @property
    def authority(self) -> str:
        """The Blob service's host for pyarrow: without the account's name, if the host begins with it."""
        host = urlsplit(self.url).netloc
        return host.removeprefix(self.account) if host.startswith(f"{self.account}.") else host

    @property
    def connection_string(self) -> str:
        """The connection string, for clients that accept nothing else; it has secrets."""
        parts = {
            "DefaultEndpointsProtocol": urlsplit(self.url).scheme,
            "AccountName": self.account,
            "AccountKey": self.key,
            "BlobEndpoint": self.url,
            "SharedAccessSignature": self.sas,
        }
        return ";".join(f"{name}={value}" for name, value in parts.items() if value is not None)


def check_key(key: str, name: str) -> None:
    """Refuse a key of an account that is not base64, which no client can use. The error does not repeat it."""
    try:
        base64.b64decode(key, validate=True)
    except ValueError as error:
        raise ValueError(
            f"{name} is not base64: copy one of the account's access keys, as the portal gives it"
        ) from error


def check_sas(sas: str, name: str) -> None:
    """Refuse a shared access signature that is not of the form `name=value&…`. The error does not repeat it."""
    if not all("=" in part for part in sas.split("&") if part):
        raise ValueError(f"{name} is not of the form name=value&name=value: copy the token, as the portal gives it")


def parse_connection_string(text: str) -> AzureAccess:
    """Return the account and credential in a connection string. The error does not repeat the text."""
    parts = {}
    for part in text.strip().rstrip(";").split(";"):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError("connection_string is not of the form Name=value;Name=value")
        parts[name.strip().lower()] = value.strip()
    endpoint = parts.get("blobendpoint", "").rstrip("/")
    account = parts.get("accountname") or urlsplit(endpoint).netloc.partition(".")[0]
    key, sas = parts.get("accountkey"), parts.get("sharedaccesssignature")
    if not account:
        raise ValueError("connection_string names no account: it needs AccountName or BlobEndpoint")
    if not key and not sas:
        raise ValueError("connection_string has neither AccountKey nor SharedAccessSignature: add one")
    if key:
        check_key(key, "AccountKey of connection_string")
    if sas:
        check_sas(sas.removeprefix("?"), "SharedAccessSignature of connection_string")
    if not endpoint:
        protocol = parts.get("defaultendpointsprotocol", "https")
        endpoint = f"{protocol}://{account}.blob.{parts.get('endpointsuffix', SUFFIX)}"
    return AzureAccess(account, endpoint, key or None, sas.removeprefix("?") if sas else None)
