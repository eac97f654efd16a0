"""Servers that fail at every step of every act: the lake is sound afterwards, and the next run succeeds.

`docs/faults.md` has the tables of the steps, the faults and their outcomes.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dev.servers.postgres_proxy import postgres_proxy
from lake_assets_tests.faults.actors import Actors
from lake_assets_tests.faults.bench import Bench, Case, PostgresBench, S3Bench
from lake_assets_tests.world import World

pytestmark = pytest.mark.kill

DOCS = Path(__file__).parents[2] / "docs" / "faults.md"
KINDS = ("replace", "append", "index", "compaction", "clean-up", "restore", "delta export", "dead letters")
PARTS = 4  # of the cases of an act, each a test of its own
# `make soak` tries all, and each fault at each step.
TIERS = {("PostgreSQL", "append"): [], **{("S3", kind): [pytest.mark.more] for kind in ("replace", "restore")}}
BENCHES = [
    pytest.param((server, kind), marks=TIERS.get((server, kind), [pytest.mark.soak]), id=f"{server} {kind}")
    for server in ("S3", "PostgreSQL")
    for kind in KINDS
]


@pytest.fixture
def bench(request: pytest.FixtureRequest, local_world: World, actors: Actors) -> Iterator[Bench]:
    """The act on a lake whose S3 storages, or whose PostgreSQL catalog, are behind a proxy."""
    server, kind = request.param
    if server == "S3":
        yield S3Bench(kind, local_world, actors, request.getfixturevalue("s3_proxy"))
        return
    with postgres_proxy(request.getfixturevalue("postgres")) as proxy:
        yield PostgresBench(kind, local_world, actors, proxy)


def tables(section: str) -> tuple[list[list[str]], list[list[str]]]:
    """The rows of the two tables of a section: the faults, and the steps with their acts and outcomes."""
    text = DOCS.read_text("utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    faults, steps = (
        [[cell.strip() for cell in line.strip("|").split("|")] for line in block.strip().splitlines()[2:]]
        for block in text.split("\n\n")
        if block.lstrip().startswith("|")
    )
    return faults, steps


def check(bench: Bench, cases: Sequence[Case]) -> None:
    """Run the cases, and compare their outcomes with the table of the docs."""
    outcomes = {step: {False: short, True: lasting} for step, _, short, lasting in tables(bench.section)[1]}
    for case in cases:
        try:
            error = bench.run(case)
            expected = "succeeds" if case.fault == "slow" else outcomes[bench.documented(case.step)][case.lasts]
            assert expected in {"may fail", "succeeds" if error is None else "fails"}, error
        except Exception as failure:
            failure.add_note(f"{bench.kind}: {case}")
            raise


@pytest.mark.servers
@pytest.mark.parametrize("bench", BENCHES, indirect=True)
def test_faults_at_some_steps(bench: Bench) -> None:
    """Each act meets another part of the faults; the docs have its steps, and no others."""
    documented = {step for step, acts, *_ in tables(bench.section)[1] if bench.kind in acts.split(", ")}
    assert {bench.documented(step) for step in bench.steps} == documented
    check(bench, bench.covering(KINDS.index(bench.kind), len(KINDS)))


@pytest.mark.servers
@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("bench", [(server, kind) for server in ("S3", "PostgreSQL") for kind in KINDS], indirect=True)
def test_every_fault_at_every_step(bench: Bench, part: int) -> None:
    check(bench, bench.cases()[part::PARTS])


@pytest.mark.parametrize("of", [S3Bench, PostgresBench])
def test_the_docs_have_every_fault(of: type[Bench]) -> None:
    assert [fault for fault, _ in tables(of.section)[0]] == list(dict.fromkeys([*of.faults, *of.lasting]))
