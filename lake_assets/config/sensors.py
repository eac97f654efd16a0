"""A stream's sensor, by which Dagster detects objects that have landed."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from lake_assets.config.model import Model
from lake_assets.config.schedules import Status
from lake_assets.config.storages import Endpoint, TemporaryKeys


class SensorBase(Model):
    """The keys of both sensors."""

    interval: int | None = Field(
        None,
        ge=5,
        le=86400,
        description="Seconds between two ticks; Dagster's daemon looks every 5. By default 5 for a folder, an S3 "
        "server in a private network, and a queue; else 30.",
    )
    max_runs: int = Field(
        25,
        ge=1,
        le=1000,
        description="Runs requested by one tick; partitions that need more runs are requested as ranges.",
    )
    group_runs: int = Field(
        100,
        ge=1,
        le=200,
        description="Changed partitions that may share a run, if they are neighbours and have up to a gigabyte of "
        "objects; 1: each has its own.",
    )
    lookback: int = Field(2, ge=0, le=366, description="Days before today whose partitions every tick lists.")
    budget: float = Field(20, ge=1, le=25, description="Seconds that a tick may take; Dagster ends it at 60.")
    status: Status = Field("running", description="State when Dagster first loads the sensor; the UI can change it.")


class ObjectSensor(SensorBase):
    """A sensor that lists the landing zone."""

    type: Literal["objects"] = "objects"
    scan: int = Field(5000, ge=1000, le=1_000_000, description="Objects of older partitions that a tick lists.")


class SqsSensor(SensorBase, TemporaryKeys):
    """A sensor that reads the notifications of an S3 bucket from a queue."""

    type: Literal["sqs"] = "sqs"
    queue_url: str = Field(pattern=r"^https?://[^/@]+/.+$", description="The queue's URL.")
    region: str = Field("us-east-1", description="The queue's region.")
    endpoint: Endpoint = Field(None, description="URL of a server that is not AWS.")
    wait: int = Field(1, ge=0, le=5, description="Seconds that a request waits for a message.")
    messages: int = Field(100, ge=1, le=500, description="Number of messages that one tick reads.")


def _objects_by_default(value: object) -> object:
    return {"type": "objects", **value} if isinstance(value, dict) else value


Sensor = Annotated[
    ObjectSensor | SqsSensor,
    Field(discriminator="type"),
    BeforeValidator(_objects_by_default, json_schema_input_type=ObjectSensor | SqsSensor),
]
