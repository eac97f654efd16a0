"""The storages of landing zones and lakes: a folder or a bucket.

Each storage has one form of URI, in DuckLake's catalog and in all clients: an absolute path, `s3://` for S3 and all
servers with its protocol (also R2), `gs://`, and `az://`.
"""

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, TypeAdapter, field_validator, model_validator

from lake_assets.base.errors import ConfigError
from lake_assets.config.connections import (
    AzureAccess,
    RemoteStorage,
    StorageModel,
    check_key,
    check_sas,
    parse_connection_string,
)
from lake_assets.config.fields import FolderPath, Model, is_true, validation_context

_AWS = "https://s3.amazonaws.com"
_OF_AWS = re.compile(r"\.amazonaws\.com(\.cn)?$")
Provider = Literal["credential_chain"]


def _plain_prefix(prefix: str) -> str:
    prefix = prefix.strip("/")
    if ".." in prefix.split("/"):
        raise ValueError("a prefix may not have '..'")
    return prefix


def _split(url: str, problem: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:  # its text is only "Invalid IPv6 URL"
        raise ValueError(problem) from error
    return parts


def _http_endpoint(endpoint: str | None) -> str | None:
    if not endpoint:  # an empty one is that of `${NAME:-}`, so that one config is for AWS and for other servers
        return None
    parts = _split(endpoint, "an endpoint is of the form http://host:port or https://host, and this one is malformed")
    if "@" in parts.netloc:
        raise ValueError("an endpoint has no user or password: use key_id and secret")
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path.strip("/") or parts.query:
        raise ValueError(f"{endpoint!r} is not of the form http://host:port or https://host")
    return endpoint.rstrip("/")


Prefix = Annotated[str, AfterValidator(_plain_prefix), Field(description="Folder of all keys.")]
Endpoint = Annotated[str | None, AfterValidator(_http_endpoint)]


def _uri(scheme: str, bucket: str, prefix: str) -> str:
    return f"{scheme}://{bucket}/{prefix}".rstrip("/")


class LocalStorage(StorageModel):
    """A folder of this machine, or one that every Spark worker mounts at the same path."""

    is_local: ClassVar[bool] = True
    requests: ClassVar[None] = None

    type: Literal["local"] = "local"
    path: FolderPath = Field(description="Folder; relative to the config file.")

    @property
    def root(self) -> str:
        """The folder's absolute path."""
        return str(Path(self.path).absolute())


class Keys(Model):
    """The keys of S3's protocol. Without them, credentials come from the credential chain."""

    provider: Provider | None = Field(
        None, description="`credential_chain`: there are no keys, and credentials come from the environment."
    )
    key_id: str | None = Field(None, min_length=1, description="Access key; the credential chain when absent.")
    secret: SecretStr | None = Field(None, description="Secret of the access key.")

    @model_validator(mode="after")
    def _whole_key(self) -> Self:
        if (self.key_id is None) != (self.secret is None):
            raise ValueError("key_id and secret go together: give both, or neither to use the credential chain")
        if self.provider and self.key_id:
            raise ValueError("provider: credential_chain and key_id exclude each other: remove one of them")
        return self


class TemporaryKeys(Keys):
    """Keys that may have a session token."""

    session_token: SecretStr | None = Field(None, description="Session token of temporary keys.")

    @model_validator(mode="after")
    def _token_of_keys(self) -> Self:
        if self.session_token and not self.key_id:
            raise ValueError("session_token goes with key_id and secret: give all three")
        return self

    @property
    def keys(self) -> tuple[str | None, str | None, str | None]:
        """Access key, its secret, and the session token."""
        secret = self.secret.get_secret_value() if self.secret else None
        return self.key_id, secret, self.session_token.get_secret_value() if self.session_token else None


class KeyedStorage(RemoteStorage, Keys):
    """A storage with the keys of S3's protocol."""

    prefix: Prefix = ""


@dataclass(frozen=True, slots=True)
class Role:
    """A role that is assumed by the keys, or by the credential chain."""

    arn: str
    external_id: str | None
    session_name: str
    sts: str | None  # URL of the server that gives its keys; None for AWS's


class S3ProtocolStorage(KeyedStorage, TemporaryKeys):
    """A bucket with S3's URIs."""

    bucket: str = Field(pattern=r"^[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]$", description="Name of the bucket.")
    checksums: Literal["when_required", "when_supported"] = Field(
        "when_supported",
        description="Of uploads; `when_required` for servers that refuse those of newer clients; that of "
        "`AWS_REQUEST_CHECKSUM_CALCULATION` when absent.",
    )

    @property
    @abstractmethod
    def server_url(self) -> str | None:
        """The server's URL; None for AWS."""

    @property
    def server(self) -> str:
        """The server's URL, or `AWS`."""
        return self.server_url or "AWS"

    @property
    def root(self) -> str:
        """`s3://bucket/prefix`."""
        return _uri("s3", self.bucket, self.prefix)


class S3Storage(S3ProtocolStorage):
    """A bucket of S3 or of any server with its protocol.

    Region and endpoint are completed from the environment here, once, and no client looks there again.
    """

    has_tags: ClassVar[bool] = True
    notifies_sqs: ClassVar[bool] = True

    type: Literal["s3"] = "s3"
    region: str = Field("us-east-1", description="The bucket's region; that of `AWS_REGION` when absent.")
    endpoint: Endpoint = Field(
        None,
        description="URL of an S3-compatible server; that of `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL` when absent, "
        "and AWS when empty.",
    )
    anonymous: bool = Field(default=False, description="A public bucket: requests are not signed. For landing zones.")
    requester_pays: bool = Field(default=False, description="Requests are paid by who makes them.")
    addressing: Literal["path", "virtual"] | None = Field(
        None,
        description="Whether the bucket is in the path or in the host of a URL; when absent, in the path at an "
        "`endpoint` and of a bucket with dots, and else in the host at AWS.",
    )

    role_arn: str | None = Field(
        None,
        pattern=r"^arn:\S{16,}$",
        description="ARN of a role, which each client assumes by the keys, or by the credential chain.",
    )
    external_id: str | None = Field(None, min_length=2, description="External id, if the role's trust demands one.")
    session_name: str = Field(
        "lake-assets", pattern=r"^[\w+=,.@-]{2,64}$", description="Name of the role's session, in AWS's logs."
    )
    sts_endpoint: Endpoint = Field(
        None,
        description="URL of the server that gives the role's keys; when absent, that of `AWS_ENDPOINT_URL_STS`, or "
        "else the `endpoint`, unless that is of AWS.",
    )

    @classmethod
    def _settings(cls, environment: Mapping[str, str]) -> dict[str, str]:
        """Return region, endpoints and checksums of AWS's own variables, in the order of boto3."""
        names = {
            "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
            "checksums": ("AWS_REQUEST_CHECKSUM_CALCULATION",),
            "sts_endpoint": ("AWS_ENDPOINT_URL_STS",),
            "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        }
        given = {key: next(filter(environment.get, variables), "") for key, variables in names.items()}
        for key in ("sts_endpoint", "endpoint"):
            try:
                _http_endpoint(environment.get(given[key]))
            except ValueError as error:
                raise ConfigError(f"{given[key]}: {error}.") from error
        settings = {key: environment[name] for key, name in given.items() if name}
        return settings | ({"checksums": settings["checksums"].lower()} if "checksums" in settings else {})

    @classmethod
    def _server(cls, data: Mapping[str, object]) -> str:
        return str(data.get("endpoint") or _AWS)

    @model_validator(mode="after")
    def _anonymous_without_keys(self) -> Self:
        if self.anonymous and (self.key_id or self.provider):
            raise ValueError("anonymous goes without key_id and provider: remove them, or anonymous")
        if self.anonymous and self.role_arn:
            raise ValueError("a role is assumed by keys: remove anonymous, or role_arn")
        if self.external_id and not self.role_arn:
            raise ValueError("external_id is of a role: give role_arn too")
        if self.anonymous and self.requester_pays:
            raise ValueError("requester_pays needs a key to bill: remove anonymous, or requester_pays")
        if self.addressing == "path" and self.endpoint is None:
            raise ValueError("addressing: path is for an endpoint: AWS has the bucket in the host, so leave it out")
        return self

    @property
    def server_url(self) -> str | None:
        """The server's URL; None for AWS."""
        return self.endpoint

    @property
    def is_virtual(self) -> bool:
        """Whether the bucket is in the host's name, and not in the path."""
        is_of_aws = self.endpoint is None and "." not in self.bucket  # whose certificate is of names without dots
        return is_of_aws if self.addressing is None else self.addressing == "virtual"

    @property
    def role(self) -> Role | None:
        """The role that each client assumes."""
        if self.role_arn is None:
            return None
        is_at_aws = _OF_AWS.search(urlsplit(self.endpoint or _AWS).hostname or "")
        sts = self.sts_endpoint or (None if is_at_aws else self.endpoint)
        return Role(self.role_arn, self.external_id, self.session_name, sts)

    @property
    def has_role(self) -> bool:
        """Whether each client assumes a role, whose keys expire."""
        return self.role_arn is not None

    @property
    def read_only(self) -> str | None:
        """Why nothing can be written; None if it can."""
        return "is anonymous" if self.anonymous else None


class R2Storage(S3ProtocolStorage):
    """A bucket of Cloudflare R2, accessed by S3's protocol.

    Its URIs begin with `s3://`. DuckDB supports `r2://` too, but pyarrow, obstore, Spark and most other readers do not.
    """

    region: ClassVar[str] = "auto"
    anonymous: ClassVar[bool] = False
    requester_pays: ClassVar[bool] = False
    is_virtual: ClassVar[bool] = False
    role: ClassVar[None] = None

    type: Literal["r2"] = "r2"
    account_id: str = Field(pattern=r"^[0-9A-Za-z]+$", description="The account, as in the endpoint's host name.")
    endpoint: Endpoint = Field(None, description="URL in place of the account's own, such as that of a jurisdiction.")

    @classmethod
    def _server(cls, data: Mapping[str, object]) -> str:
        return str(data.get("endpoint") or f"https://{data.get('account_id')}.r2.cloudflarestorage.com")

    @property
    def server_url(self) -> str:
        """The account's endpoint, unless the config has another one."""
        return self._server(vars(self))


class GcsStorage(KeyedStorage):
    """A bucket of Google Cloud Storage.

    It has two kinds of credentials. DuckDB uses the bucket's S3 protocol, for which `key_id` and `secret` are an HMAC
    key; a landing zone does not need them. Listing, reading and writing use Google's own protocol, with
    `service_account` or, without it, the application default credentials.
    """

    _client_without: ClassVar[str] = "pyarrow's client of Google Cloud Storage"

    type: Literal["gcs"] = "gcs"
    bucket: str = Field(pattern=r"^[a-z0-9][a-z0-9._\-]{1,220}[a-z0-9]$", description="Name of the bucket.")
    service_account: str | None = Field(None, description="Path of a service account's key file, on every worker.")

    @model_validator(mode="after")
    def _whole_path(self) -> Self:
        if self.service_account is not None:
            if self.provider:
                raise ValueError(
                    "provider: credential_chain and service_account exclude each other: remove one of them"
                )
            if not Path(self.service_account).is_absolute():
                raise ValueError("service_account is the absolute path of a key file, the same on every worker")
        return self

    @property
    def lacks_hmac_key(self) -> bool:
        """Whether DuckDB cannot access it without an HMAC key, and there is none in the config or environment."""
        return not (self.key_id or self.provider)

    @property
    def server(self) -> str:
        """The vendor."""
        return "Google"

    @property
    def root(self) -> str:
        """`gs://bucket/prefix`."""
        return _uri("gs", self.bucket, self.prefix)


class AzureStorage(RemoteStorage):
    """A container of Azure Blob Storage or Data Lake Storage.

    Its URIs are `az://container/prefix`, for the Blob endpoint, which serves every account. The config also accepts
    `abfss://`, but the package does not use its Data Lake endpoint: that refuses accounts without a hierarchical
    namespace if soft delete is on.
    """

    _client_without: ClassVar[str] = "pyarrow's client of Azure"

    type: Literal["azure"] = "azure"
    account: str | None = Field(
        None, pattern=r"^[a-z0-9]{3,24}$", description="Name of the account; not needed beside `connection_string`."
    )
    container: str = Field(pattern=r"^[a-z0-9](?:-?[a-z0-9]){2,62}$", description="Name of the container.")
    prefix: Prefix = ""
    provider: Provider | None = Field(
        None, description="`credential_chain`: there are no keys, and credentials come from the environment."
    )
    account_key: SecretStr | None = Field(None, description="A key of the account.")
    connection_string: SecretStr | None = Field(None, description="As the portal gives it, with account and key.")
    sas: SecretStr | None = Field(None, description="A shared access signature, as the portal gives it.")

    @field_validator("account_key")
    @classmethod
    def _in_base64(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None:
            check_key(key.get_secret_value(), "account_key")
        return key

    @field_validator("sas")
    @classmethod
    def _of_pairs(cls, sas: SecretStr | None) -> SecretStr | None:
        if sas is None:
            return None
        text = sas.get_secret_value().removeprefix("?")
        check_sas(text, "sas")
        return SecretStr(text)

    @model_validator(mode="after")
    def _one_credential(self) -> Self:
        ways = ("account_key", "connection_string", "sas", "provider")
        given = [name for name in ways if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{given[0]} and {given[1]} exclude each other: remove one of them")
        if self.connection_string is None and self.account is None:
            raise ValueError("the storage account is missing: give account, or connection_string")
        named = self.access.account
        if self.account is not None and named != self.account:
            raise ValueError(f"connection_string is of the account {named!r}, and account says {self.account!r}")
        return self

    @property
    def access(self) -> AzureAccess:
        """The account and its credential; it has secrets."""
        if self.connection_string is not None:
            return parse_connection_string(self.connection_string.get_secret_value())
        return AzureAccess(
            account=self.account or "",
            key=self.account_key.get_secret_value() if self.account_key else None,
            sas=self.sas.get_secret_value() if self.sas else None,
        )

    @property
    def server(self) -> str:
        """The Blob service's URL."""
        return self.access.url

    @property
    def root(self) -> str:
        """`az://container/prefix`."""
        return _uri("az", self.container, self.prefix)


def _plain_url(url: str) -> str:
    parts = _split(url, "not of the form https://host/path: correct host and port")
    if "@" in parts.netloc:
        raise ValueError("a URL has no user or password: only public files are read from a web server")
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.fragment:
        raise ValueError("not of the form https://host/path, without a query: only public files are read there")
    if ".." in parts.path.split("/"):
        raise ValueError("a URL may not have '..'")
    return url.rstrip("/")


class WebStorage(RemoteStorage):
    """A folder of public files on a web server, as a landing zone. A web server cannot be listed."""

    is_listable: ClassVar[bool] = False

    type: Literal["web"] = "web"
    url: Annotated[str, AfterValidator(_plain_url)] = Field(description="`https://host/path`, without a query.")

    @classmethod
    def _server(cls, data: Mapping[str, object]) -> str:
        return str(data.get("url"))

    @property
    def read_only(self) -> str:
        """Why nothing can be written."""
        return "is a web server"

    @property
    def root(self) -> str:
        """The URL."""
        return self.url


LakeStorage = LocalStorage | S3Storage | R2Storage | GcsStorage | AzureStorage
AnyStorage = LakeStorage | WebStorage

_FORMS = "a path, s3://bucket/prefix, gs://bucket/prefix, r2://account_id/bucket/prefix or abfss://container@account…"


def _storage_from_text(value: object) -> object:
    """Return the mapping for a URI or a path, which has no credentials."""
    if not isinstance(value, str):
        return value
    if "*" in value:
        raise ValueError(f"{value!r} is a glob, and only a stream's source may be one: name the folder or bucket alone")
    scheme, separator, rest = value.partition("://")
    if not separator or scheme == "file":
        return {"type": "local", "path": rest if separator else value}
    bucket, _, prefix = rest.partition("/")
    if scheme == "s3":
        return {"type": "s3", "bucket": bucket, "prefix": prefix}
    if scheme in {"gs", "gcs"}:
        return {"type": "gcs", "bucket": bucket, "prefix": prefix}
    if scheme == "r2":
        account_id, (bucket, _, prefix) = bucket, prefix.partition("/")
        if not bucket:
            raise ValueError("R2 needs the account too: r2://account_id/bucket/prefix, or a mapping with type: r2")
        return {"type": "r2", "account_id": account_id, "bucket": bucket, "prefix": prefix}
    if scheme in {"abfss", "abfs", "azure", "az"}:
        return _azure_from_text(bucket, prefix)
    if scheme in {"http", "https"}:
        raise ValueError("a web server can only be a stream's source: nothing can be written to it")
    raise ValueError(f"{scheme}:// is not a known storage: use {_FORMS}")


def _azure_from_text(authority: str, path: str) -> object:
    """Split `container@account.dfs.core.windows.net/…` or `account.blob.core.windows.net/container/…`."""
    container, at, host = authority.partition("@")
    if not at:
        host = authority
        container, _, path = path.partition("/")
    account, dot, _ = host.partition(".")
    if not dot or not container:
        raise ValueError(
            "Azure needs account and container: abfss://container@account.dfs.core.windows.net/prefix, "
            "azure://account.blob.core.windows.net/container/prefix, or a mapping with type: azure"
        )
    return {"type": "azure", "account": account, "container": container, "prefix": path}


def _source_from_text(value: object) -> object:
    if isinstance(value, str) and value.partition("://")[0] in {"http", "https"}:
        return {"type": "web", "url": value}
    return _storage_from_text(value)


Storage = Annotated[
    LakeStorage,
    Field(discriminator="type"),
    BeforeValidator(_storage_from_text, json_schema_input_type=str | LakeStorage),
]
Source = Annotated[
    AnyStorage, Field(discriminator="type"), BeforeValidator(_source_from_text, json_schema_input_type=str | AnyStorage)
]


def storage_at(place: str, environment: Mapping[str, str], folder: Path = Path()) -> LakeStorage:
    """Return the storage of a path, or of a URI such as `s3://bucket/prefix`; pydantic's ValidationError if it is none.

    The environment has the variables that complete a bucket, and `AWS_SKIP_SIGNATURE`.
    """
    adapter = TypeAdapter[LakeStorage](Storage)
    storage: LakeStorage = adapter.validate_python(place, context=validation_context(folder, environment))
    if isinstance(storage, S3Storage) and is_true(environment, "AWS_SKIP_SIGNATURE", default=False):
        return storage.model_copy(update={"anonymous": True})
    return storage
