"""The failure of a step, which Dagster tries again if every cause is one that passes."""

from collections.abc import Collection

import dagster as dg

from lake_assets.errors import TRANSIENT
from lake_assets.orchestration.dagster_private import StepContext

RETRIES = 2  # of a step without other errors
RETRY_SECONDS = 30  # before the first retry; twice as many before the second


def tried_again(context: StepContext, failure: dg.Failure, errors: Collection[Exception]) -> dg.Failure:
    """Return the failure of a step by these errors.

    Raises dagster.RetryRequested if all of them are transient, and this was not the last retry. It is not a retry
    policy: with one, Dagster would also retry a run that somebody has cancelled.
    """
    retry = context.retry_number
    if retry < RETRIES and errors and all(isinstance(error, TRANSIENT) for error in errors):
        raise dg.RetryRequested(RETRIES, RETRY_SECONDS * 2**retry) from failure
    return failure
