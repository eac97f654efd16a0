"""`make bench`: all benchmarks in one run on the same data, as ratios against named peers.

python -m dev.benchmarks [--only NAME] [--quick] [--check] [--folder FOLDER]
"""

import os
import platform
import tempfile
from contextlib import nullcontext
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from dev.benchmarks.arrival import arrival
from dev.benchmarks.backfill import backfill
from dev.benchmarks.cold import cold
from dev.benchmarks.flights import flights
from dev.benchmarks.formats import formats
from dev.benchmarks.index import index
from dev.benchmarks.landing import landing
from dev.benchmarks.measure import Report
from dev.benchmarks.planning import planning
from dev.benchmarks.refresh import big, copied, small
from dev.benchmarks.spark_read import spark_read
from dev.benchmarks.table_size import table_size
from dev.benchmarks.whole_tables import whole_tables
from lake_assets.spark.spark_session import spark_config, start_session

BENCHMARKS = {
    "small": small,
    "big": big,
    "copy": copied,
    "formats": formats,
    "flights": flights,
    "backfill": backfill,
    "table-size": table_size,
    "landing": landing,
    "index": index,
    "cold": cold,
    "arrival": arrival,
    "plan": planning,
    "whole-tables": whole_tables,
    "spark-read": spark_read,
}
QUICK = 0.02  # of the full size


@click.command()
@click.option("--only", type=click.Choice(list(BENCHMARKS)), multiple=True, help="Run these only.")
@click.option("--quick", is_flag=True, help="Small data and one repetition, to see that the benchmarks run.")
@click.option("--repeat", default=5, show_default=True, help="Repetitions after the warm-up.")
@click.option("--check", is_flag=True, help="Fail if a target is missed.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where data is kept; else a temporary folder.")
@click.pass_context
def main(
    ctx: click.Context, only: tuple[str, ...], repeat: int, folder: Path | None, *, quick: bool, check: bool
) -> None:
    """Measure, and print one table of ratios."""
    report = Report()
    place = nullcontext(str(folder)) if folder else tempfile.TemporaryDirectory(prefix="lake-assets-bench-")
    with place as path:
        # Spark's own writer needs a heap for a million rows of several columns and files at once.
        settings = {"spark.driver.memory": "4g"}
        spark = start_session(spark_config(app_name="lake-assets-bench", settings=settings))
        for name in only or BENCHMARKS:
            click.echo(f"{name} …", err=True)
            BENCHMARKS[name](report, Path(path).absolute(), spark, 1 if quick else repeat, QUICK if quick else 1.0)
        spark.stop()
    _print(report)
    if check and any(line.met is False for line in report.lines):
        ctx.exit(1)


def _print(report: Report) -> None:
    table = Table("what", "ours", "peer", "ratio", "target", "", box=None, pad_edge=False, header_style="bold")
    marks = {True: "[green]met", False: "[red]missed", None: ""}
    for line in report.lines:
        ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
        target = "" if line.target is None else f"≤ {line.target:g}"
        table.add_row(line.what, line.ours, line.peer, ratio, target, marks[line.met])
    console = Console(width=160)
    console.print(f"{os.cpu_count()} cores, Python {platform.python_version()}; median (fastest-slowest), warm")
    console.print(table)


if __name__ == "__main__":
    main()
