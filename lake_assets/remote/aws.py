"""Clients of AWS's APIs for launchers and drivers, all with the same retries."""

from typing import Any

import boto3
from botocore.config import Config

ATTEMPTS = 10
"""Of a request, the first one included: a lost message would make the launcher count its partition as lost."""


def client(service: str, region: str | None = None) -> Any:  # noqa: ANN401 - boto3 has no types
    """A client with the credentials of the environment.

    Args:
        service: its name in boto3.
        region: that of the environment when None.
    """
    retries = {"mode": "standard", "total_max_attempts": ATTEMPTS}
    return boto3.client(service, region_name=region, config=Config(retries=retries))
