"""Every text that tells one error of Spark's from another is provoked on the real Spark."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions

from lake_assets.spark import spark_errors
from lake_assets.spark.spark_errors import TEXTS, SparkSays
from lake_assets_tests.spark.processes import run_python
from lake_assets_tests.tiers import more

SESSION = """
import os, signal, sys, time
from pyspark.sql import functions
from lake_assets.spark.spark_session import spark_config, start_session

def session(**settings):
    settings = {"spark." + name.replace("_", "."): value for name, value in settings.items()}
    return start_session(spark_config(settings={"spark.master": "local[1]", **settings}))

def kill_executor(value):
    with open(f"/proc/{os.getppid()}/stat") as stat:
        os.kill(int(stat.read().rsplit(")", 1)[1].split()[1]), signal.SIGKILL)

def run_function(spark, function):
    spark.range(1).select(functions.udf(function, "bigint")("id")).collect()

"""


def said(work: Callable[[], object]) -> str:
    with pytest.raises((PySparkException, Py4JError)) as raised:
        work()
    return str(raised.value)


def in_worker(spark: SparkSession, function: Callable[[Any], Any]) -> str:
    return said(lambda: spark.range(1).select(functions.udf(function, "bigint")("id")).collect())


def end(value: int) -> int:
    os._exit(value)


def class_raised_in_worker(spark: SparkSession, function: Callable[[Any], Any]) -> str:
    return in_worker(spark, function).strip().splitlines()[-1].partition(":")[0]


def divided_column(spark: SparkSession) -> str:
    frame = spark.range(1)
    return said(lambda: frame.select(functions.lit(1) / frame["id"]).collect())


IN_SESSION: dict[str, Callable[[SparkSession], str]] = {
    r"Traceback \(most recent call last\):\n(?s:(.*))": lambda spark: in_worker(spark, lambda value: 1 / value),
    "Python worker exited unexpectedly": lambda spark: in_worker(spark, end),
    "^MemoryError$": lambda spark: class_raised_in_worker(spark, lambda _: len(bytearray(1 << 62))),
    r"^pyarrow\.lib\.ArrowMemoryError$": lambda spark: class_raised_in_worker(
        spark, lambda _: len(pa.allocate_buffer(1 << 62))
    ),
    "OutOfMemoryError": lambda spark: said(lambda: spark.sql("SELECT size(sequence(0, 2000000000))").collect()),
    "Trace:": lambda spark: said(spark._jsc.nope),
    r"== SQL(?: of [^\n]*)? \(line (\d+), position (\d+)\) ==": lambda spark: said(
        lambda: spark.sql("SELECT\n  1 / id FROM range(1)").collect()
    ),
    r"line (\d+),? pos (\d+)": lambda spark: said(lambda: spark.sql("SELECT nope FROM range(1)")),
    r'== DataFrame ==\n"(\w+)" was called from\n(\S.*)': divided_column,
}
IN_PROCESS = {
    "Python worker failed to connect": """
spark = session(python_use_daemon="false", python_worker_module="broken.worker")
run_function(spark, abs)
""",
    r"from [\w.]+\.daemon": """
spark = session(python_daemon_module="broken.daemon")
run_function(spark, abs)
""",
    "Not enough memory": """
spark = session(driver_memory="512m")
rows = spark.range(60_000_000).selectExpr("id", "repeat(CAST(id AS STRING), 20) AS text")
spark.range(1 << 22).hint("broadcast").join(rows.hint("broadcast"), "id").count()
""",
    "ExecutorLostFailure": """
spark = session(master="local-cluster[1,1,512]", executor_memory="512m", task_maxFailures="1")
run_function(spark, kill_executor)
""",
    r"^Exception while sending command\.$": """
import logging
logging.basicConfig(format="%(message)s", level="INFO")  # py4j's level if it tries once more, as after an empty answer
spark = session(log_level="WARN")
os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
spark.range(1).collect()
""",
}
CLIENT = """
import sys
from pyspark.sql import SparkSession
url = sys.argv[1]
"""
IN_CLIENT = {
    r"INVALID_HANDLE\.SESSION_(?:CLOSED|NOT_FOUND|CHANGED)|^\[NO_ACTIVE_SESSION\]": """
spark = SparkSession.builder.remote(url).getOrCreate()
spark.range(1).collect()
spark.client.release_session()
spark.range(1).collect()
""",
    r"StatusCode\.UNAUTHENTICATED|UNAUTHENTICATED: |Invalid authentication token|No authentication token": """
SparkSession.builder.remote(url + "x").getOrCreate().range(1).collect()
""",
}
MEANS = {text.pattern: text.means for text in TEXTS}


def find(pattern: str, text: str) -> bool:
    """Whether the pattern and the table find the text; a log is searched line by line."""
    lines = text.splitlines() if MEANS[pattern] is SparkSays.CALL_LOST else [text]
    return any(re.search(pattern, line) and spark_errors.spark_text(line, MEANS[pattern]) for line in lines)


@pytest.mark.parametrize("pattern", [*list(IN_SESSION)[:2], *more(list(IN_SESSION)[2:])])
def test_spark_says_it(spark: SparkSession, pattern: str) -> None:
    assert find(pattern, IN_SESSION[pattern](spark))


@pytest.mark.soak
@pytest.mark.parametrize("pattern", IN_PROCESS)
def test_a_session_of_its_own_says_it(tmp_path: Path, pattern: str) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "__init__.py").touch()
    (broken / "daemon.py").write_text("raise SystemExit(1)\n")
    (broken / "worker.py").write_text("import time\ntime.sleep(60)\n")

    run = run_python("-c", SESSION + IN_PROCESS[pattern], folder=tmp_path, environment={"PYTHONPATH": str(tmp_path)})

    assert run.returncode
    assert find(pattern, run.stderr)


@pytest.mark.soak
@pytest.mark.parametrize("pattern", IN_CLIENT)
def test_a_client_says_it(tmp_path: Path, spark_connect: str, pattern: str) -> None:
    run = run_python("-c", CLIENT + IN_CLIENT[pattern], spark_connect, folder=tmp_path)

    assert run.returncode
    assert find(pattern, run.stderr)


def test_the_table_says_which_texts_no_test_provokes() -> None:
    assert [text.pattern for text in TEXTS if not text.is_provoked] == [
        "(?i:executor lost)",
        r"StatusCode\.UNAVAILABLE|UNAVAILABLE: |RETRIES_EXCEEDED",
    ]
    provoked = {text.pattern for text in TEXTS if text.is_provoked}
    assert provoked == IN_SESSION.keys() | IN_PROCESS.keys() | IN_CLIENT.keys()
    assert not IN_SESSION.keys() & IN_PROCESS.keys()
