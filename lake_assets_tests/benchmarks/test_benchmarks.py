"""The benchmarks run; what they measure is for people to judge."""

import subprocess
import sys

import pytest


@pytest.mark.more
@pytest.mark.long
def test_a_benchmark_prints_its_ratios() -> None:
    command = [sys.executable, "-m", "dev.benchmarks", "--quick", "--only", "small"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)

    assert done.returncode == 0, done.stderr
    assert "DuckDB DELETE + INSERT" in done.stdout
