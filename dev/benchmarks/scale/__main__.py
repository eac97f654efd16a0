"""How cost grows, for docs/explanation/scale.md.

python -m dev.benchmarks.scale [--part PART] [--quick] [--redraw] [--out FOLDER]
"""

import datetime as dt
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click

from dev.benchmarks.peers.results import Machine
from dev.benchmarks.plotted import write
from dev.benchmarks.scale.driver import driver
from dev.benchmarks.scale.ledger import ledger
from dev.benchmarks.scale.objects import objects
from dev.benchmarks.scale.plots import drawings
from dev.benchmarks.scale.results import Results
from dev.benchmarks.scale.table import table
from dev.benchmarks.scale.writers import writers

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "explanation" / "scale.md"
FIGURES = PAGE.with_suffix("")  # the folder of the plots and of the results
ELSEWHERE = ROOT / "build" / "bench-scale"  # for quick runs

_write = partial(write, drawings=drawings)
Part = Callable[[Path, bool], Mapping[str, Any]]


def _say(text: str) -> None:
    click.echo(f"{dt.datetime.now().astimezone():%H:%M:%S} {text}", err=True)


def _table(folder: Path, quick: bool) -> Mapping[str, Any]:
    plain, indexed = table(folder, _say, quick=quick)
    return {"table": plain, "indexed": indexed}


PARTS: Mapping[str, Part] = {
    "writers": lambda folder, quick: {"writers": writers(folder, _say, quick=quick)},
    "table": _table,
    "ledger": lambda folder, quick: {"ledger": ledger(folder, _say, quick=quick)},
    "objects": lambda folder, quick: {"objects": objects(folder, _say, quick=quick)},
    "driver": lambda folder, quick: {"driver": driver(folder, _say, quick=quick)},
}


@click.command()
@click.option("--part", "only", type=click.Choice(list(PARTS)), multiple=True, help="These parts only.")
@click.option("--quick", is_flag=True, help="Small sizes and few rounds, to see that everything runs.")
@click.option("--redraw", is_flag=True, help="Measure nothing: draw the plots of results.json again.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where data is kept; else a temporary folder.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where results and plots are written; else the docs, or build/bench-scale with --quick.",
)
def main(only: tuple[str, ...], folder: Path | None, out: Path | None, *, quick: bool, redraw: bool) -> None:
    """Measure the parts, and write results and plots.

    The parts that are not measured keep their results. Each takes less than six minutes on two cores.
    """
    target = out.absolute() if out else ELSEWHERE if quick else FIGURES
    file = target / "results.json"
    known = Results.model_validate_json(file.read_text(encoding="utf-8")) if file.exists() else None
    if redraw:
        if known is None:
            raise click.UsageError(f"there is no {file}: measure first")
        _write(known, target)
        return
    found = {} if known is None or known.quick != quick else dict(known)
    place = nullcontext(str(folder)) if folder else tempfile.TemporaryDirectory(prefix="lake-assets-bench-")
    with place as path:
        for name in only or PARTS:
            _say(name)
            part = PARTS[name](Path(path).absolute(), quick)
            measured = {**found.get("measured", {}), name: dt.datetime.now(dt.UTC).date()}
            found |= {"quick": quick, "machine": Machine.here(), "measured": measured, **part}
            _write(Results(**found), target)
    _say(f"written: {target}")


if __name__ == "__main__":
    main()
