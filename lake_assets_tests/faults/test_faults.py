"""Servers that fail at every step of every operation: the lake is sound afterwards, and the next run succeeds."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dev.servers.postgres_proxy import postgres_proxy
from dev.servers.proxy import S3Proxy
from dev.servers.s3 import S3Server
from lake_assets_tests.faults import table
from lake_assets_tests.faults.bench import Bench, Case, Result
from lake_assets_tests.faults.operations import OPERATIONS
from lake_assets_tests.faults.postgres_bench import PostgresBench
from lake_assets_tests.faults.s3_bench import S3Bench
from lake_assets_tests.world import World

PARTS = 4  # of the cases of an operation, each a test of its own


@pytest.fixture(params=["S3", "PostgreSQL"])
def bench(request: pytest.FixtureRequest, local_world: World, tmp_path: Path, operation: str) -> Iterator[Bench]:
    """The operation on a lake whose S3 storages, or whose PostgreSQL catalog, are behind a proxy."""
    if request.param == "S3":
        s3: S3Server = request.getfixturevalue("s3")
        proxy: S3Proxy = request.getfixturevalue("s3_proxy")
        yield S3Bench(OPERATIONS[operation], local_world, tmp_path, proxy, s3)
        return
    server = request.getfixturevalue("postgres")
    with postgres_proxy(server) as catalog:
        yield PostgresBench(OPERATIONS[operation], local_world, tmp_path, catalog, server)


def check(bench: Bench, cases: Sequence[Case]) -> None:
    """Run the cases, and compare their outcomes with the table of the docs."""
    documented = table.steps(bench.section)
    results, wrong = bench.failures(cases)
    wrong += [
        f"{bench.operation.name}: {result.case}: {expected} by the docs, but: {result.error}"
        for result in results
        if (expected := _expected(documented[bench.documented(result.case.step)], result)) not in _outcomes(result)
    ]
    assert not wrong, "\n".join(wrong)


def _expected(row: table.Row, result: Result) -> str:
    if result.case.fault == "slow":
        return "succeeds"
    return row.lasting if result.case.lasts else row.short


def _outcomes(result: Result) -> set[str]:
    return {"may fail", "succeeds" if result.error is None else "fails"}


@pytest.mark.sample(5)
@pytest.mark.servers
@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_faults_at_some_steps(bench: Bench) -> None:
    """Each operation meets another part of the faults; the docs have its steps, and no others."""
    steps = {bench.documented(step) for step in bench.steps}
    assert steps == {row.step for row in table.steps(bench.section).values() if bench.operation.name in row.operations}
    check(bench, bench.covering(list(OPERATIONS).index(bench.operation.name), len(OPERATIONS)))


@pytest.mark.servers
@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_every_fault_at_every_step(bench: Bench, part: int) -> None:
    check(bench, bench.cases()[part::PARTS])


@pytest.mark.parametrize("bench", [S3Bench, PostgresBench])
def test_the_docs_have_every_fault(bench: type[Bench]) -> None:
    assert table.faults(bench.section) == list(dict.fromkeys([*bench.faults, *bench.lasting]))


def test_the_docs_name_tests_that_exist() -> None:
    missing = [file for file in table.tests() if not (Path(__file__).parents[1] / file).is_file()]
    assert table.tests()
    assert not missing
