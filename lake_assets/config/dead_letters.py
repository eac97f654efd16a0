"""The destination of rows that are left out of the lake one by one."""

from pydantic import Field, model_validator

from lake_assets.config.model import Model
from lake_assets.config.storages import S3Storage, Storage


class DeadLetters(Model):
    """Where the bad rows of a stream go, if not beside its landing zone."""

    to: Storage = Field(description="Storage of the rows, outside of the lake and of every landing zone.")
    plaintext: bool = Field(
        default=False, description="Permission to write plain files for an encrypted lake, which needs it."
    )

    @model_validator(mode="after")
    def _is_written(self) -> "DeadLetters":
        if isinstance(self.to, S3Storage) and self.to.anonymous:
            raise ValueError("dead_letters.to is written to, so it cannot be anonymous: give keys or a role")
        return self
