"""Requests to a bucket: retries, pauses, time-outs, and the size from which files are uploaded in parts."""

from typing import Annotated, Self

from pydantic import AfterValidator, ByteSize, Field, model_validator

from lake_assets.config.fields import size_between
from lake_assets.config.model import Model

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


class RequestedStorage(Model):
    """A storage that is accessed by requests over a network."""

    requests: Requests = Field(Requests(), description="Retries, pauses, time-outs, and uploads in parts.")
