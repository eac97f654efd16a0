"""`make bench-peers`: this package beside its peers, each in an environment and a process of its own.

python -m lake_assets_tests.benchmarks.peers [--only PEER] [--part PART] [--quick] [--out FOLDER]
"""

import datetime as dt
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from lake_assets.spark.java import find_java
from lake_assets_tests.benchmarks.peers.bench import Bench
from lake_assets_tests.benchmarks.peers.catalogue import PEERS
from lake_assets_tests.benchmarks.peers.data import OTHERS
from lake_assets_tests.benchmarks.peers.environments import EnvironmentFailedError, python_of
from lake_assets_tests.benchmarks.peers.growth import backfill, files
from lake_assets_tests.benchmarks.peers.process import Command
from lake_assets_tests.benchmarks.peers.refresh import refresh
from lake_assets_tests.benchmarks.peers.results import Failure, Machine, Results
from lake_assets_tests.benchmarks.peers.writers import writers

PARTS = ("small", "big", "writers", "files", "backfill")


@click.command()
@click.option("--only", type=click.Choice(list(PEERS)), multiple=True, help="These peers only.")
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, help="These parts only.")
@click.option("--quick", is_flag=True, help="Little data and few rounds, to see that everything runs.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where data is kept; else a temporary folder.")
@click.option("--out", type=click.Path(path_type=Path), help="Where the results are written as JSON.")
def main(only: tuple[str, ...], parts: tuple[str, ...], folder: Path | None, out: Path | None, *, quick: bool) -> None:
    """Measure all peers in turns, and compare their tables with the landed rows."""
    commands, missing = _commands(only or tuple(PEERS))
    place = nullcontext(str(folder)) if folder else tempfile.TemporaryDirectory(prefix="lake-assets-bench-")
    with place as path:
        bench = Bench(Path(path).absolute(), commands, lambda text: click.echo(text, err=True))
        names = list(commands)
        wanted = parts or PARTS
        found: dict[str, Mapping[str, Any]] = {}
        if "small" in wanted:
            found["small"] = refresh(bench, "small", names, *((5, 1000, 2) if quick else (100, 1000, 9)))
        if "big" in wanted:
            found["big"] = refresh(bench, "big", names, *((2, 20_000, 1) if quick else (10, 1_000_000, 3)))
        if "writers" in wanted:
            found["writers"] = writers(bench, names, *((1, 3) if quick else (4, 8)))
        if "files" in wanted:
            found["files"] = files(bench, names, *((300, 1, 5) if quick else (30_000, 5)))
        if "backfill" in wanted:
            found["backfill"] = backfill(bench, names, *((4, 5.0) if quick else (None, 45.0)))
        results = Results(
            measured=dt.datetime.now(dt.UTC).date(),
            quick=quick,
            machine=Machine.here(),
            versions=bench.versions,
            others=OTHERS,
            **{part: {**missing, **by_peer} for part, by_peer in found.items()},
        )
        if out:
            out.write_text(results.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _commands(names: tuple[str, ...]) -> tuple[dict[str, Command], dict[str, Failure]]:
    """How to start each peer, and why some cannot be started."""
    environment = {"JAVA_HOME": str(find_java().home)}
    commands, missing = {}, {}
    for name in names:
        click.echo(f"environment of {name}", err=True)
        try:
            commands[name] = Command(python_of(PEERS[name]), PEERS[name].module, environment)
        except EnvironmentFailedError as error:
            click.echo(f"  {error}", err=True)
            missing[name] = Failure(error=str(error))
    return commands, missing


if __name__ == "__main__":
    main()
