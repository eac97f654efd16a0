"""How records of a stream are landed: columns, batches, outputs and the buffer."""

import re
from typing import Annotated

from pydantic import AfterValidator, ByteSize, Field, field_validator

from lake_assets.config.bucket_requests import PartSize
from lake_assets.config.column_types import ColumnType
from lake_assets.config.fields import FolderPath, Identifier
from lake_assets.config.model import Model
from lake_assets.config.schedules import Cron
from lake_assets.config.storages import Storage
from lake_assets.layout.names import fits

READABLE = "write files: '*.parquet', or another pattern that matches them"  # how to correct what `unread` says

_ENDING = re.compile(r"\.[A-Za-z0-9._-]+")


def _positive(size: ByteSize) -> ByteSize:
    if size < 1:
        raise ValueError("must be at least 1 byte")
    return size


Bytes = Annotated[ByteSize, AfterValidator(_positive)]


def ending_of(files: str) -> str | None:
    """Return how landed files end, so that a stream with this pattern reads them: `.parquet` if possible.

    None if the pattern matches no name of a batch, such as `part-*.parquet`.
    """
    endings = (".parquet", files.rpartition("*")[2])
    return next((end for end in endings if _ENDING.fullmatch(end) and fits([f"batch_0_0_node-0{end}"], files)), None)


def unread(files: str) -> str:
    """Return the problem of a stream whose pattern no landed file matches."""
    return (
        f"files {files!r} matches no file that land writes (batch_….parquet), so the stream would not read its records"
    )


class Batch(Model):
    """When the records of a partition are written as a file: at the first limit that is reached."""

    records: int = Field(1000, ge=1, le=10_000_000, description="Records in a file.")
    bytes: Bytes = Field(default="64MiB", validate_default=True, description="Arrow memory, before compression.")
    age: float = Field(10, gt=0, le=86_400, description="Seconds since the first record of the batch.")


class Buffer(Model):
    """A folder of this machine that keeps each batch until all outputs have it."""

    path: FolderPath = Field(description="Folder; relative to the config file.")
    retention_days: float = Field(7, ge=0, le=36500, description="Days that a batch is kept after all outputs have it.")


class Landing(Model):
    """How `lake-assets land` and `LandingWriter` write a stream's records."""

    columns: dict[Identifier, ColumnType] | None = Field(
        None, min_length=1, description="The records' columns; inferred from the first records when absent."
    )
    keep_path_columns: bool = Field(
        default=False, description="Write the columns of the path into the files too, with their types."
    )
    batch: Batch = Field(Batch(), description="When the records of a partition are written as a file.")
    memory: Bytes = Field(default="256MiB", validate_default=True, description="Arrow memory of all open batches.")
    outputs: tuple[Storage, ...] = Field(
        (), max_length=100, description="Storages that get every batch; the stream's source when empty."
    )
    max_in_flight: int = Field(4, ge=1, le=256, description="Concurrent uploads to an output.")
    multipart_threshold: PartSize | None = Field(
        None,
        description="Larger files are uploaded in parts; when absent, that of each output's `requests`, else 5 MiB.",
    )
    retries: int = Field(
        4, ge=0, le=100, description="Retries of a whole upload, each with the retries of the output's `requests`."
    )
    buffer: Buffer | None = Field(None, description="Folder that keeps each batch until all outputs have it.")
    node: str | None = Field(
        None, pattern=r"^[A-Za-z0-9][A-Za-z0-9.\-]{0,62}$", description="In file names; the host's name when absent."
    )
    drain: Cron = Field("*/5 * * * *", description="Cron schedule (UTC) of the Dagster job that empties the buffer.")

    @field_validator("outputs")
    @classmethod
    def _each_once(cls, outputs: tuple[Storage, ...]) -> tuple[Storage, ...]:
        roots = [output.root for output in outputs]
        if repeated := [root for root in roots if roots.count(root) > 1]:
            raise ValueError(f"{repeated[0]} is named twice: remove one of them")
        return outputs
