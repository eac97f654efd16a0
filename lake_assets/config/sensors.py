"""A stream's sensor: what tells Dagster that objects have landed."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from lake_assets.config.model import Model
from lake_assets.config.storages import Endpoint, Provider

Status = Literal["running", "stopped"]


class SensorBase(Model):
    """What both kinds of sensors have."""

    interval: int = Field(30, ge=5, le=86400, description="Seconds between two ticks, at least.")
    max_runs: int = Field(
        25, ge=1, le=1000, description="Runs requested by one tick; more changed partitions are requested as ranges."
    )
    lookback: int = Field(2, ge=0, le=366, description="Days before today whose partitions are watched most closely.")
    budget: float = Field(20, ge=1, le=25, description="Seconds of a tick; Dagster ends it at 60.")
    status: Status = Field("running", description="State when Dagster loads the sensor first; the UI can change it.")


class ObjectSensor(SensorBase):
    """A sensor that lists the landing zone."""

    type: Literal["objects"] = "objects"
    scan: int = Field(5000, ge=1000, le=1_000_000, description="Objects of older partitions that one tick lists.")


class SqsSensor(SensorBase):
    """A sensor that reads the notifications of an S3 bucket from a queue."""

    type: Literal["sqs"] = "sqs"
    queue_url: str = Field(pattern=r"^https?://[^/@]+/.+$", description="The queue's URL.")
    region: str = Field("us-east-1", description="The queue's region.")
    endpoint: Endpoint = Field(None, description="URL of a server that is not AWS.")
    provider: Provider | None = Field(
        None, description="`credential_chain`: there are no keys, and credentials come from the environment."
    )
    key_id: str | None = Field(None, min_length=1, description="Access key; the credential chain when absent.")
    secret: SecretStr | None = Field(None, description="Secret of the access key.")
    session_token: SecretStr | None = Field(None, description="Session token of temporary keys.")
    wait: int = Field(1, ge=0, le=5, description="Seconds that a request waits for a message.")
    messages: int = Field(100, ge=1, le=500, description="Messages that one tick reads.")

    @model_validator(mode="after")
    def _whole_key(self) -> Self:
        if (self.key_id is None) != (self.secret is None):
            raise ValueError("key_id and secret go together: give both, or neither to use the credential chain")
        if self.provider and self.key_id:
            raise ValueError("provider: credential_chain and key_id exclude each other: remove one of them")
        if self.session_token and not self.key_id:
            raise ValueError("session_token goes with key_id and secret: give all three")
        return self


def _objects_by_default(value: object) -> object:
    return {"type": "objects", **value} if isinstance(value, dict) else value


Sensor = Annotated[
    ObjectSensor | SqsSensor,
    Field(discriminator="type"),
    BeforeValidator(_objects_by_default, json_schema_input_type=ObjectSensor | SqsSensor),
]
