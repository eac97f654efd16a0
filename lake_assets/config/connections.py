"""How a storage is reached: requests, certificates, proxies, and the connection string of an Azure account.

Source of the string: Azure Storage's manual, "Configure Azure Storage connection strings".
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Self
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from pydantic import AfterValidator, ByteSize, Field, SecretStr, ValidationInfo, model_validator

from lake_assets.config.fields import FolderPath, Model, environment_of, size_between

_SUFFIX = "core.windows.net"


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
        return self.endpoint or f"https://{self.account}.blob.{_SUFFIX}"

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
        endpoint = f"{protocol}://{account}.blob.{parts.get('endpointsuffix', _SUFFIX)}"
    return AzureAccess(account, endpoint, key or None, sas.removeprefix("?") if sas else None)


# The limits of S3, https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
PartSize = Annotated[
    ByteSize, AfterValidator(size_between(5 * 2**20, 5 * 2**30, "5 MiB to 5 GiB, the sizes of a part"))
]

_GROWTH = 3  # by which the pauses grow, when the config does not bound them


class Requests(Model):
    """Requests to a storage: retries, pauses, time-outs, and uploads in parts.

    A storage that is away for less than `retries` times `first_wait` seconds fails no request.
    """

    retries: int = Field(8, ge=0, le=100, description="Retries of a request after a transient error.")
    first_wait: float = Field(
        0.5, gt=0, le=60, description="Seconds before the first retry. The pauses grow, and none is shorter."
    )
    longest_wait: float | None = Field(
        None, gt=0, le=600, description="Seconds before a retry at most; three times `first_wait` when absent."
    )
    connect_timeout: float = Field(5, gt=0, le=300, description="Seconds until a connection counts as failed.")
    timeout: float = Field(60, gt=0, le=3600, description="Seconds until a request without an answer counts as failed.")
    multipart_threshold: PartSize | None = Field(
        None,
        description="Files up to this size are uploaded in one request, from memory, and larger ones in parts; when "
        "absent, 10 MiB for data files in S3 and R2, and 5 MiB for landed files.",
    )

    @model_validator(mode="after")
    def _waits_grow(self) -> Self:
        if self.longest_wait is not None and self.longest_wait < self.first_wait:
            raise ValueError(
                f"longest_wait ({self.longest_wait:g}) is shorter than first_wait ({self.first_wait:g}): write a "
                "longer one, or leave it out"
            )
        return self

    @property
    def wait_limit(self) -> float:
        """The longest pause before a retry, in seconds."""
        return self.longest_wait if self.longest_wait is not None else _GROWTH * self.first_wait

    @property
    def retry_seconds(self) -> float:
        """Seconds that a storage may be away without an error."""
        return self.retries * self.first_wait


def _proxy_url(proxy: SecretStr | None) -> SecretStr | None:
    if proxy is None or not (url := proxy.get_secret_value()):
        return proxy
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port is None or parts.path.strip("/"):
        raise ValueError("a proxy is of the form http://host:port or http://user:password@host:port")
    return SecretStr(url.rstrip("/"))


class NetworkSettings(Model):
    """How a server is reached: the certificates that are trusted, and a proxy."""

    certificates: FolderPath | None = Field(
        None,
        description="File of the authorities that sign the server's certificate, in PEM, on every worker; that of "
        "`AWS_CA_BUNDLE` or `SSL_CERT_FILE` when absent.",
    )
    proxy: Annotated[SecretStr | None, AfterValidator(_proxy_url)] = Field(
        None,
        description="URL of a proxy; that of `HTTPS_PROXY` (of a server without TLS, `HTTP_PROXY`) when absent, unless "
        "`NO_PROXY` names the server.",
    )

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, data: object, info: ValidationInfo) -> object:
        if not isinstance(data, dict):
            return data
        environment = environment_of(info)
        data = cls._settings(environment) | data
        way = environment_network(cls._server(data), environment)
        return way | data | ({} if data.get("proxy") else {"proxy": way.get("proxy")})  # `""` is that of `${NAME:-}`

    @classmethod
    def _settings(cls, environment: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG003 - some classes have some
        """Return the keys that variables of the vendor complete."""
        return {}

    @classmethod
    def _server(cls, data: Mapping[str, object]) -> str:  # noqa: ARG003 - as above
        """Return the URL of the server; empty if each client has its own way."""
        return ""


class StorageModel(Model):
    """What others ask of a storage in place of its type."""

    is_local: ClassVar[bool] = False  # a folder: there are no requests, and files can be renamed and linked
    is_listable: ClassVar[bool] = True
    has_tags: ClassVar[bool] = False  # of objects
    notifies_sqs: ClassVar[bool] = False  # of objects that land

    @property
    def server(self) -> str | None:
        """URL or name of the server; None if the root names it."""
        return None

    @property
    def read_only(self) -> str | None:
        """Why nothing can be written; None if it can."""
        return None

    @property
    def has_role(self) -> bool:
        """Whether each client assumes a role, whose keys expire."""
        return False

    @property
    def lacks_hmac_key(self) -> bool:
        """Whether DuckDB cannot access it without an HMAC key, and there is none in the config or environment."""
        return False


class RemoteStorage(NetworkSettings, StorageModel):
    """A storage that is accessed by requests over a network."""

    requests: Requests = Field(Requests(), description="Retries, pauses, time-outs, and uploads in parts.")
    _client_without: ClassVar[str] = ""  # a client that takes neither, and has its own variables

    @model_validator(mode="after")
    def _reached_by_each_client(self) -> Self:
        for name in NetworkSettings.model_fields:
            if self._client_without and getattr(self, name) is not None:
                raise ValueError(f"{self._client_without} takes no {name}: leave it out, and let this machine have it")
        return self


def shared_network(storages: Iterable[object]) -> tuple[str | None, SecretStr | None]:
    """Return the one file of certificates and the one proxy of a lake's buckets.

    DuckDB has one setting of each for all of them; two different ones are a ValueError.
    """
    buckets = [storage for storage in storages if isinstance(storage, RemoteStorage)]
    for name in NetworkSettings.model_fields:
        if len({getattr(storage, name) or None for storage in buckets}) > 1:
            raise ValueError(
                f"DuckDB has one setting of {name} for all storages of a lake, its sources in mode index too, and "
                "theirs differ: give all of them the same"
            )
    proxies = [storage.proxy for storage in buckets if storage.proxy is not None]
    return (buckets[0].certificates, proxies[0] if proxies else None) if buckets else (None, None)


def environment_network(url: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the certificates and the proxy that the standard variables have for a server; an empty text for none."""
    try:
        server, way = urlsplit(url), dict[str, str]()
    except ValueError:  # the URL's own check says what is malformed
        return {}
    variables = {name.lower(): value for name, value in sorted(environment.items()) if value}  # `https_proxy` is last
    if server.scheme == "https" and (file := variables.get("aws_ca_bundle") or variables.get("ssl_cert_file")):
        way["certificates"] = file
    if server.hostname:
        proxy, direct = variables.get(f"{server.scheme}_proxy", ""), {"no": variables.get("no_proxy", "")}
        way["proxy"] = proxy if "://" in proxy or not proxy else f"http://{proxy}"
        way |= {"proxy": ""} if proxy_bypass_environment(server.hostname, direct) else {}
    return way
