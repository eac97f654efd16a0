"""The export of each commit's changes as Parquet."""

from typing import Literal

from pydantic import Field, model_validator

from lake_assets.config.model import Model
from lake_assets.config.storages import S3Storage, Storage

DeltaCompression = Literal["zstd", "snappy", "gzip", "none"]


class Deltas(Model):
    """Where a stream's commits export the rows that they insert and remove, and how."""

    to: Storage = Field(description="Storage of the exported files, outside of the lake and of every landing zone.")
    compression: DeltaCompression = Field("zstd", description="Codec of the exported files.")
    format: Literal["parquet"] = Field("parquet", description="Format of the exported files.")
    latest: bool = Field(
        default=False, description="Whether `_latest.json` beside the files lists those of the newest commits."
    )
    plaintext: bool = Field(
        default=False, description="Permission to export plain files from an encrypted lake, which needs it."
    )

    @model_validator(mode="after")
    def _is_written(self) -> "Deltas":
        if isinstance(self.to, S3Storage) and self.to.anonymous:
            raise ValueError("deltas.to is written to, so it cannot be anonymous: give keys or a role")
        return self
