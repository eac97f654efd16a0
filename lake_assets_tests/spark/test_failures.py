"""The error for a failed transform, task or process of Spark: one sentence with its position."""

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions

from lake_assets.base.errors import SparkUnavailableError, TaskLostError, TransformError, is_interrupt
from lake_assets.spark.spark_errors import failed_function, job_error, refused_result, refused_sql
from lake_assets_tests.tiers import more
from lake_assets_tests.world import NW, World, sales

HERE = f"{__name__}:"


def in_rows(work: Callable[[Any], Any]) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.withColumn("id", functions.udf(work, "bigint")("id"))


def _raise(value: int) -> int:
    raise ValueError(f"no {value}\nof that kind")


def _exit(value: int) -> int:
    sys.exit(value)


raises, exits = in_rows(_raise), in_rows(_exit)


def leaves(_: DataFrame) -> DataFrame:
    sys.exit(0)


def acts(frame: DataFrame) -> DataFrame:
    frame.select(functions.expr("1 / (id - id)")).collect()
    return frame


COLUMN = (
    "the transform's SQL is refused by Spark at line 2, column 3: A column, variable, or function "
    "parameter with name `totl` cannot be resolved. Did you mean one of the following? "
    "[`total`, `id`, `date`, `region`]: correct transform.sql. The rows are in the view `source`."
)
DIVISION = (
    "the transform's SQL failed at line 2, column 3: Division by zero. Use `try_divide` to tolerate "
    "divisor being 0 and return NULL instead: correct transform.sql, or land rows that it can take."
)
FAILED, CORRECT = rf"failed at {re.escape(__file__)}, line \d+:", "correct the function"


@pytest.mark.parametrize(
    ("way", "transform", "text"),
    [
        ("sql", "SELECT id,\n  totl FROM source", re.escape(COLUMN)),
        *more(
            [
                ("sql", "SELEC 1", "at line 1, column 1: Syntax error at or near 'SELEC': correct transform.sql"),
                ("sql", "SELECT id,\n  total / 0 AS total FROM source", re.escape(DIVISION)),
                ("function", f"{HERE}raises", rf"{FAILED} ValueError: no 0: {CORRECT}"),
                ("function", f"{HERE}exits", rf"{FAILED} SystemExit: 0: {CORRECT}"),
                ("function", f"{HERE}leaves", rf"raised SystemExit: 0 at {re.escape(__file__)}, line \d+: {CORRECT}"),
                ("function", f"{HERE}acts", r"raised ArithmeticException: Division by zero\..* at line 1, column 1:"),
            ]
        ),
    ],
    ids=["column", "syntax", "division", "raises", "exits", "leaves", "acts"],
)
def test_an_error_in_a_transform_is_one_sentence_with_its_position(
    local_world: World, capfd: pytest.CaptureFixture[str], way: str, transform: str, text: str
) -> None:
    local_world.options = {"transform": {way: transform}}
    local_world.land(NW, sales(1, 2))

    with pytest.raises(TransformError, match=text) as raised:
        local_world.ingest(NW)

    assert not is_interrupt(raised.value)
    assert way == "sql" or f"the transform {transform} " in str(raised.value)
    assert "SQLSTATE" not in str(raised.value)
    assert "\n" not in str(raised.value)
    # Neither Spark nor pyspark has logged it.
    err = capfd.readouterr().err
    assert not any(sign in err for sign in ("ERROR", "Traceback", "\tat org."))


PORT = "EOFException occurred while reading the port number from"
KILLED = "a Python worker of Spark was killed, or ended, .+: let fewer tasks run side by side "


@pytest.mark.parametrize(
    ("said", "text"),
    [
        pytest.param("Python worker exited unexpectedly (crashed)", KILLED, id="worker"),
        pytest.param(f"{PORT} pyspark.daemon's stdout", KILLED, id="daemon"),
        pytest.param(f"{PORT} lake_assets.spark.daemon's stdout", KILLED, id="our daemon"),
        pytest.param("ExecutorLostFailure (executor 3 exited)", "an executor of Spark was lost", id="executor"),
        pytest.param("java.lang.OutOfMemoryError: limit", "JVM had too little memory: raise spark.driver", id="JVM"),
    ],
)
def test_the_error_names_the_process_that_ended(said: str, text: str) -> None:
    error = job_error(PySparkException(f"Job aborted due to stage failure: {said}"))

    assert isinstance(error, TaskLostError)
    assert re.search(text, str(error))


def test_a_jvm_that_ended_is_no_fault_of_the_transform() -> None:
    error = PySparkException("Unable to parse datatype. An error occurred while calling o69.schema")
    error.__cause__ = Py4JError("An error occurred while calling o69.schema")
    for item in (refused_result(error), refused_sql(error), failed_function("a:b", error), job_error(error)):
        assert isinstance(item, SparkUnavailableError)


def test_a_call_of_the_jvm_that_it_refuses_is_the_functions_fault() -> None:
    error = Py4JError("An error occurred while calling o69.nope. Trace:\npy4j.Py4JException: Method nope([]) does not")
    assert isinstance(failed_function("a:b", error), TransformError)
