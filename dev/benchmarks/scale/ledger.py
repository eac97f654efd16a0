"""What questions about one partition cost as its ledger grows, with most of the rows in the ledger's own files."""

from collections.abc import Callable
from pathlib import Path

from dev.benchmarks.refresh import PARTITION
from dev.benchmarks.scale.lake import (
    Files,
    catalog_on,
    commit_all,
    make_table,
    server,
    stream_on,
    timed,
)
from dev.benchmarks.scale.results import Grown
from dev.benchmarks.table_size import A_RUN, a_run
from lake_assets.lake.ledger.flush import flush_ledger
from lake_assets.lake.ledger.read import LedgerFilter, last_runs, ledger_figures, read_ledger
from lake_assets.lake.ledger.tables import record
from lake_assets.upkeep.history.history_entries import history

SIZES = (10_000, 100_000, 1_000_000)
QUICK = (500, 1_000)


def ledger(folder: Path, say: Callable[[str], None], *, quick: bool) -> list[Grown]:
    """Each size, after maintenance has flushed the rows."""
    grown = []
    with server() as running:
        stream = stream_on(catalog_on(running), folder / "ledger")
        make_table(stream)
        partition = stream.config.partition(PARTITION)
        size = 0
        for wanted in QUICK if quick else SIZES:
            with stream.lake.open() as lake:
                for start in range(size, wanted, A_RUN):
                    record(lake, list(a_run(stream, start, min(A_RUN, wanted - start))))
                commit_all(lake, Files(stream).replacements([PARTITION]))
                flush_ledger(lake)
                size = wanted
                repeat = 1 if quick else 5
                seconds = {
                    "last run of 1": timed(lambda: last_runs(lake, stream.table, [partition]), repeat),
                    "rows of 1": timed(lambda: read_ledger(lake, LedgerFilter(load_partition=partition.path)), repeat),
                    "figures of all": timed(lambda: ledger_figures(lake), repeat),
                    "commit 1": timed(lambda: commit_all(lake, Files(stream).replacements([PARTITION])), repeat),
                }
            seconds["history of 1"] = timed(lambda: history(stream, partition), repeat)
            grown.append(Grown(size=size, seconds=seconds))
            say(f"{size:,} ledger rows: {', '.join(f'{name}: {took:.3f} s' for name, took in seconds.items())}")
    return grown
