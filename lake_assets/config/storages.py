"""Where objects lie: a folder or a bucket, for landing zones and for lakes alike."""

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from lake_assets.config.model import Model


class LocalStorage(Model):
    """A folder of this machine, or one that every Spark worker mounts at the same path."""

    type: Literal["local"] = "local"
    path: str = Field(min_length=1, description="Folder; relative to the config file.")


class S3Storage(Model):
    """A bucket of S3 or of any server that speaks its protocol, with a prefix below which all keys lie."""

    type: Literal["s3"] = "s3"
    bucket: str = Field(pattern=r"^[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]$")
    prefix: str = ""
    region: str = "us-east-1"
    endpoint: str | None = Field(None, description="URL of an S3-compatible server; AWS when absent.")
    key_id: str | None = None
    secret: SecretStr | None = None
    session_token: SecretStr | None = None

    @field_validator("prefix")
    @classmethod
    def _plain_prefix(cls, prefix: str) -> str:
        prefix = prefix.strip("/")
        if ".." in prefix.split("/"):
            raise ValueError("a prefix may not climb with '..'")
        return prefix

    @field_validator("endpoint")
    @classmethod
    def _http_endpoint(cls, endpoint: str | None) -> str | None:
        if endpoint is None:
            return None
        parts = urlsplit(endpoint)
        if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path.strip("/"):
            raise ValueError(f"{endpoint!r} is not of the form http://host:port or https://host")
        return endpoint.rstrip("/")

    @model_validator(mode="after")
    def _whole_key(self) -> Self:
        if (self.key_id is None) != (self.secret is None):
            raise ValueError("key_id and secret go together: give both, or neither to use the credential chain")
        return self


def _storage_from_text(value: object) -> object:
    """`s3://bucket/prefix` and plain paths are short for the mapping."""
    if not isinstance(value, str):
        return value
    if value.startswith("s3://"):
        bucket, _, prefix = value.removeprefix("s3://").partition("/")
        return {"type": "s3", "bucket": bucket, "prefix": prefix}
    if "://" in value and not value.startswith("file://"):
        scheme = value.split("://", 1)[0]
        raise ValueError(f"{scheme}:// is not a storage that is known here: use a path or s3://bucket/prefix")
    return {"type": "local", "path": value.removeprefix("file://")}


Storage = Annotated[
    LocalStorage | S3Storage,
    Field(discriminator="type"),
    BeforeValidator(_storage_from_text, json_schema_input_type=str | LocalStorage | S3Storage),
]
