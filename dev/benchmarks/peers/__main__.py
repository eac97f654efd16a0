"""`make bench-peers`: this package beside its peers, each in an environment and a process of its own.

python -m dev.benchmarks.peers [--only PEER] [--part PART] [--quick] [--redraw] [--out FOLDER]
"""

import datetime as dt
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click

from dev.benchmarks.peers.bench import Bench
from dev.benchmarks.peers.catalogue import COPIED, PEERS
from dev.benchmarks.peers.data import OTHERS
from dev.benchmarks.peers.environments import ROOT, EnvironmentFailedError, python_of
from dev.benchmarks.peers.growth import backfill, files
from dev.benchmarks.peers.plots import drawings
from dev.benchmarks.peers.process import Command
from dev.benchmarks.peers.readers import readers
from dev.benchmarks.peers.refresh import refresh
from dev.benchmarks.peers.results import Failure, Machine, Results
from dev.benchmarks.peers.writers import writers
from dev.benchmarks.plotted import write
from lake_assets.spark.jvm import find_java

PAGE = ROOT / "docs" / "explanation" / "benchmarks.md"
FIGURES = PAGE.with_suffix("")  # the folder of the plots and of the results
ELSEWHERE = ROOT / "build" / "bench-peers"  # for runs that are not complete

_write = partial(write, drawings=drawings)
Part = Callable[[Bench, list[str]], Mapping[str, Any]]


def _parts(*, quick: bool) -> Mapping[str, Part]:
    """The parts by name, and how much each measures."""
    small, big = ((5, 1000, 2), (2, 20_000, 1)) if quick else ((100, 1000, 9), (10, 1_000_000, 3))
    return {
        "small": lambda bench, names: refresh(bench, "small", names, *small),
        "big": lambda bench, names: refresh(bench, "big", names, *big),
        "writers": lambda bench, names: writers(bench, names, *((1, 3) if quick else (3, 8))),
        "readers": lambda bench, names: readers(bench, names, 2.0 if quick else 8.0),
        "files": lambda bench, names: files(bench, names, *((300, 1, 5) if quick else (30_000, 5))),
        "backfill": lambda bench, names: backfill(bench, names, *((4, 5.0) if quick else (None, 30.0))),
    }


PARTS = tuple(_parts(quick=True))


@click.command()
@click.option("--only", type=click.Choice(list(PEERS)), multiple=True, help="These peers only.")
@click.option("--part", "only_parts", type=click.Choice(PARTS), multiple=True, help="These parts only.")
@click.option("--quick", is_flag=True, help="Little data and few rounds, to see that everything runs: five minutes.")
@click.option("--redraw", is_flag=True, help="Measure nothing: draw the plots of results.json of --out again.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where data is kept; else a temporary folder.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where results and plots are written; else the docs, or build/bench-peers if the run is not complete.",
)
def main(
    only: tuple[str, ...],
    only_parts: tuple[str, ...],
    folder: Path | None,
    out: Path | None,
    *,
    quick: bool,
    redraw: bool,
) -> None:
    """Measure all peers in turns, and compare their tables with the landed rows.

    A complete run takes about half an hour on two cores, 16 GB of memory and 10 GB of disk, and writes the results and
    plots of the documentation. A peer that fails is reported as such, and the others go on.
    """
    complete = not (only or only_parts or quick)
    target = out.absolute() if out else FIGURES if complete else ELSEWHERE
    if redraw:
        _write(Results.model_validate_json((target / "results.json").read_text(encoding="utf-8")), target)
        return
    commands, missing = start_commands(only or tuple(PEERS))
    place = nullcontext(str(folder)) if folder else tempfile.TemporaryDirectory(prefix="lake-assets-bench-")
    with place as path:
        bench = Bench(Path(path).absolute(), commands, say)
        found: dict[str, Mapping[str, Any]] = {}
        for name, part in _parts(quick=quick).items():
            if name not in (only_parts or PARTS):
                continue
            found[name] = {**part(bench, _taking_part(name, commands)), **missing}
            results = Results(
                measured=dt.datetime.now(dt.UTC).date(),
                quick=quick,
                machine=Machine.here(),
                versions={peer: bench.versions[peer] for peer in PEERS if peer in bench.versions and peer != COPIED},
                others=OTHERS,
                small_size="5 x 1,000 rows" if quick else "100 x 1,000 rows",
                big_size="2 x 20,000 rows" if quick else "10 x 1,000,000 rows",
                **found,
            )
            # A run that is ended leaves what it has measured, and the page as it was.
            _write(results, ELSEWHERE)
        _write(results, target)
    say(f"written: {target}")


def _taking_part(part: str, names: Iterable[str]) -> list[str]:
    """The peers of a part: a refresh of one partition is also measured with copied objects."""
    return [name for name in names if name != COPIED or part in ("small", "big")]


def say(text: str) -> None:
    click.echo(f"{dt.datetime.now().astimezone():%H:%M:%S} {text}", err=True)


def start_commands(names: tuple[str, ...]) -> tuple[dict[str, Command], dict[str, Failure]]:
    """How to start each peer, and why some cannot be started."""
    environment = {"JAVA_HOME": str(find_java().home)}
    commands, missing = {}, {}
    for name in names:
        say(f"environment of {name}")
        try:
            commands[name] = Command(python_of(PEERS[name]), PEERS[name].module, environment)
        except EnvironmentFailedError as error:
            say(f"  {error}")
            missing[name] = Failure(error=str(error))
    return commands, missing


if __name__ == "__main__":
    main()
