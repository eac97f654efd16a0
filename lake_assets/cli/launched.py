"""An ingest of the command line whose driver a launcher starts."""

from collections.abc import Callable, Sequence

from lake_assets.cli.terminal import echo
from lake_assets.config.models import LakeConfig
from lake_assets.config.runs import InProcess, RemoteRuns, SparkSubmit
from lake_assets.errors import LauncherError
from lake_assets.ingest.options import IngestOptions
from lake_assets.ingest.outcome import Outcome, pending
from lake_assets.ingest.reported import reported_run
from lake_assets.launch.launcher import driver_of, launch
from lake_assets.launch.received import Received
from lake_assets.layout.partition import Partition
from lake_assets.remote.request import Request
from lake_assets.streams.stream import OpenStream


def ingest_by_driver(
    config: LakeConfig,
    stream: OpenStream,
    partitions: Sequence[Partition],
    note: Callable[[Outcome], None],
    announce: Callable[[str | None], None],
    options: IngestOptions,
    *,
    launcher: str | None = None,
) -> None:
    """Refresh partitions by a driver.

    Args:
        config: of the stream.
        stream: of the partitions.
        partitions: each once.
        note: is called with each outcome.
        announce: is called with a text before the driver starts, and with None when it has started.
        options: of the run.
        launcher: its name; that of the config when None.

    Raises:
        Exception: what ended the run in the driver.
        LauncherError: the driver cannot be started.
        KeyboardInterrupt: Ctrl-C or SIGTERM; the driver has ended.
    """
    runs = _runs(config, launcher)
    request = Request.of(config, runs, stream.name, partitions, options)
    announce("starting the driver")

    def warn(level: str, text: str) -> None:
        if level not in ("DEBUG", "INFO"):
            echo(text, err=True)

    received = Received(pending(stream, partitions, options), note, lambda: announce(None), warn)
    with reported_run(request.run_id, stream.name, stream.config.mode, len(partitions)):
        driver = driver_of(config, runs, request, received, lambda line: echo(line, err=True))
        received.finish(launch(driver, request, received))


def _runs(config: LakeConfig, launcher: str | None) -> RemoteRuns:
    """The launcher with its options: those of the config, if it has this launcher."""
    runs = config.runs
    if launcher not in (None, runs.launcher):
        if launcher != "spark_submit":
            raise LauncherError(
                f"--launcher {launcher} needs options, and the config has runs: {runs.launcher}:",
                f"write runs: {{launcher: {launcher}, …}}, as docs/how-to/run-by-a-driver.md describes.",
            )
        runs = SparkSubmit(launcher=launcher)
    assert not isinstance(runs, InProcess)  # noqa: S101 - the caller runs it itself
    return runs
