"""The report of a stream as a page that is written again after each run."""

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from lake_assets.config.fields import short_for
from lake_assets.config.model import Model
from lake_assets.config.schedules import Status
from lake_assets.config.storages import S3Storage, Storage


class Report(Model):
    """Where the page of a stream's report is, and whether runs refresh it. The storage alone is its short form."""

    to: Storage = Field(description="Storage of the page `<stream>.html`.")
    status: Status = Field(
        "running", description="State of the automation when Dagster first loads it; the UI can change it."
    )

    @model_validator(mode="after")
    def _is_written(self) -> "Report":
        if isinstance(self.to, S3Storage) and self.to.anonymous:
            raise ValueError("report.to is written to, so it cannot be anonymous: give keys or a role")
        return self


ReportOrStorage = Annotated[Report, BeforeValidator(short_for("to"), json_schema_input_type=str | Report)]
