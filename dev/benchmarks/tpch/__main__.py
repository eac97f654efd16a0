"""`make bench-tpch`: TPC-H's `lineitem` by ship mode and date, for this package and its peers.

python -m dev.benchmarks.tpch [--scale FACTOR] [--by month|day] [--only PEER] [--s3 [--delay MS]] [--redraw] [--out DIR]
"""

import datetime as dt
import tempfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import click

from dev.benchmarks.peers.__main__ import say, start_commands
from dev.benchmarks.peers.bench import Bench, local_places
from dev.benchmarks.peers.catalogue import COPIED, PEERS
from dev.benchmarks.peers.environments import ROOT
from dev.benchmarks.peers.results import Machine
from dev.benchmarks.plotted import write
from dev.benchmarks.tpch.dbgen import DATES
from dev.benchmarks.tpch.landing import Lineitem
from dev.benchmarks.tpch.parts import PARTS, RESTATED, Course
from dev.benchmarks.tpch.plots import drawings
from dev.benchmarks.tpch.queries import queries
from dev.benchmarks.tpch.results import Results
from dev.benchmarks.tpch.servers import servers

RESULTS = ROOT / "build" / "bench-tpch"
SCALE = 1.0
_write = partial(write, drawings=drawings)


@click.command()
@click.option("--scale", default=SCALE, help="TPC-H's scale factor: 1 has 6 million rows. 1 if absent.")
@click.option("--by", type=click.Choice(list(DATES)), default="month", help="The second partition column.")
@click.option("--only", type=click.Choice([name for name in PEERS if name != COPIED]), multiple=True)
@click.option("--s3", is_flag=True, help="On SeaweedFS with PostgreSQL instead of local files with SQLite.")
@click.option("--delay", default=0.0, help="With --s3: milliseconds that each request to the store waits.")
@click.option("--redraw", is_flag=True, help="Measure nothing: draw the plots of results.json of --out again.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where data is kept; else a temporary folder.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS, help="Where results and plots are written.")
def main(
    scale: float,
    by: str,
    only: tuple[str, ...],
    folder: Path | None,
    out: Path,
    *,
    s3: bool,
    delay: float,
    redraw: bool,
) -> None:
    """Measure the peers one after the other, and compare their tables with the landed rows."""
    target = out.absolute()
    if redraw:
        _write(Results.model_validate_json((target / "results.json").read_text(encoding="utf-8")), target)
        return
    commands, missing = start_commands(only or tuple(name for name in PEERS if name != COPIED))
    place = nullcontext(str(folder)) if folder else tempfile.TemporaryDirectory(prefix="lake-assets-bench-")
    with place as path, servers(delay) if s3 else nullcontext() as remote:
        hour = 3600.0
        bench = Bench(
            Path(path).absolute(), commands, say, limit=24 * hour, places=remote.places if remote else local_places
        )
        say(f"lineitem of scale {scale:g}")
        landing = Lineitem.generate(bench.folder, scale, by, remote.put if remote else None)
        courses = {
            name: Course(bench, name, landing, hour, max(120 * scale, 60), max(8 * scale, 2), not s3)
            for name in commands
        }
        for name, course in courses.items():
            with bench.part(name):
                course.run()
            results = Results(
                measured=dt.datetime.now(dt.UTC).date(),
                scale=scale,
                storage="on SeaweedFS with PostgreSQL" + (f", {delay:g} ms a request" if delay else "")
                if s3
                else "on local files with SQLite",
                machine=Machine.here(),
                versions=bench.versions,
                partitions=len(landing.partitions),
                restated=len(landing.partitions[::RESTATED]),
                rows=sum(rows[0] for rows in landing.rows.values()),
                parts={
                    part: {name: one.parts[part] for name, one in courses.items() if part in one.parts} | missing
                    for part in PARTS
                },
                queries={
                    query: {name: one.queries[query] for name, one in courses.items() if query in one.queries}
                    for query in queries(landing)
                },
            )
            _write(results, target)  # a run that is ended leaves what it has measured
    say(f"written: {target}")


if __name__ == "__main__":
    main()
