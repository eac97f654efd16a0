"""The driver's end of Dagster Pipes: files, or a bucket, as the launcher's parameters say.

Source of the parameters: `dagster_pipes`, its loaders and writers.
"""

from typing import Any

from dagster_pipes import (
    PipesContext,
    PipesDefaultContextLoader,
    PipesDefaultMessageWriter,
    PipesEnvVarParamsLoader,
    PipesMessageWriter,
    PipesS3ContextLoader,
    PipesS3MessageWriter,
    open_dagster_pipes,
)

WRITE_SECONDS = 1.0  # between two objects with messages
_BUCKET = "bucket"


def open_pipes() -> PipesContext:
    """Take the request, and open the way for messages."""
    loader = PipesEnvVarParamsLoader()  # type: ignore[no-untyped-call]
    is_in_bucket = _BUCKET in loader.load_context_params()
    return open_dagster_pipes(
        context_loader=PipesS3ContextLoader(_s3()) if is_in_bucket else PipesDefaultContextLoader(),
        message_writer=_message_writer(loader.load_messages_params()),
    )


def _message_writer(parameters: Any) -> "PipesMessageWriter[Any]":  # noqa: ANN401 - Pipes' type
    if _BUCKET in parameters:
        return PipesS3MessageWriter(_s3(), interval=WRITE_SECONDS)
    return PipesDefaultMessageWriter()


def _s3() -> Any:  # noqa: ANN401 - boto3 has no types
    from lake_assets.remote.bucket import client  # noqa: PLC0415 - imports boto3, and only some launchers use it

    return client("s3")
