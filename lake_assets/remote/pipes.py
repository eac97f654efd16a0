"""Dagster Pipes' protocol for a launcher without Dagster: the context, the variables of a driver, its messages."""

import json
from collections.abc import Mapping

from dagster_pipes import (
    DAGSTER_PIPES_CONTEXT_ENV_VAR,
    DAGSTER_PIPES_MESSAGES_ENV_VAR,
    PipesContextData,
    encode_param,
)

from lake_assets.remote.received import Received
from lake_assets.remote.request import Request


def context_of(request: Request) -> PipesContextData:
    """Pipes' context with the request."""
    return {
        "asset_keys": None,
        "code_version_by_asset_key": None,
        "provenance_by_asset_key": None,
        "partition_key": None,
        "partition_key_range": None,
        "partition_time_window": None,
        "run_id": request.run_id,
        "job_name": None,
        "retry_number": 0,
        "extras": request.extras,
    }


def variables(context: Mapping[str, object], messages: Mapping[str, object]) -> dict[str, str]:
    """The variables of a driver: where its context is, and where its messages go."""
    return {
        DAGSTER_PIPES_CONTEXT_ENV_VAR: encode_param(dict(context)),
        DAGSTER_PIPES_MESSAGES_ENV_VAR: encode_param(dict(messages)),
    }


def take(line: str, received: Received) -> None:
    """Take a line with one message."""
    message = json.loads(line)
    parameters = message["params"]
    match message["method"]:
        case "opened":
            received.open()
        case "report_custom_message":
            received.receive(parameters["payload"])
        case "log":
            received.log(parameters["level"], parameters["message"])
