"""Errors of Spark during a job, as errors of this package: one sentence with the position, and how to fix it.

Every text of Spark, its JVM and its Python workers that tells one error from another is in one table. Each is provoked
on the real Spark by `spark/test_spark_texts.py`, unless the table gives the reason why not.
"""

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from lake_assets.base import errors
from lake_assets.base.errors import (
    LakeAssetsError,
    SessionLostError,
    SourceError,
    SparkUnavailableError,
    SparkUnreachableError,
    TaskLostError,
    TransformError,
)
from lake_assets.base.events import OFF
from lake_assets.base.texts import VendorText, VendorTexts
from lake_assets.config.sections import Transform
from lake_assets.config.spark import REMOTE, without_parameters
from lake_assets.spark.cluster import end_lost_sessions, worker_refusal
from lake_assets.spark.jvm import has_ended
from lake_assets.spark.shared_jvm import shared_jvm


class SparkSays(Enum):
    """What a text says of a job or a session."""

    WORKER_RAISED = auto()  # Python code raised in a worker; group 1 is its traceback
    WORKER_LOST = auto()  # a Python worker ended
    WORKER_MEMORY = auto()  # the class of an error of a Python worker that had too little memory
    JVM_MEMORY = auto()  # the JVM of the driver or of an executor had too little memory
    EXECUTOR_LOST = auto()  # an executor of a cluster ended
    SERVER_LOST = auto()  # a Spark Connect server does not answer
    SESSION_LOST = auto()  # a Spark Connect server does not have, or has closed, the client's session
    TOKEN_REFUSED = auto()  # a Spark Connect server wants another token
    JVM_RAISED = auto()  # the JVM raised, and so is alive
    CALL_LOST = auto()  # what py4j logs, and then raises, when the JVM is gone
    POSITION = auto()  # line and column in the SQL, both from one
    POSITION_FROM_ZERO = auto()  # line from one, column from zero
    CALLED_FROM = auto()  # a function of the DataFrame API, and the file and line that called it


TEXTS = (
    VendorText(
        r"Traceback \(most recent call last\):\n(?s:(.*))", SparkSays.WORKER_RAISED, "a function raises in a worker"
    ),
    VendorText("Python worker exited unexpectedly", SparkSays.WORKER_LOST, "the worker's process ends in a task"),
    VendorText(
        "Python worker failed to connect",
        SparkSays.WORKER_LOST,
        "a worker without a daemon does not connect within 10 seconds",
    ),
    VendorText(
        r"from [\w.]+\.daemon", SparkSays.WORKER_LOST, "the daemon that forks the workers ends before its first worker"
    ),
    VendorText("^MemoryError$", SparkSays.WORKER_MEMORY, "Python has no memory for an object"),
    VendorText(r"^pyarrow\.lib\.ArrowMemoryError$", SparkSays.WORKER_MEMORY, "Arrow has no memory for a buffer"),
    VendorText("OutOfMemoryError", SparkSays.JVM_MEMORY, "a row does not fit into the heap"),
    VendorText("Not enough memory", SparkSays.JVM_MEMORY, "a table that is broadcast does not fit into the heap"),
    VendorText("ExecutorLostFailure", SparkSays.EXECUTOR_LOST, "the process of an executor ends in a task"),
    VendorText(
        "(?i:executor lost)",
        SparkSays.EXECUTOR_LOST,
        "the executor that holds the rows of an earlier stage ends",
        is_provoked=False,  # the stage runs again first, and the text comes only where no executor is left for it
    ),
    VendorText(
        r"StatusCode\.UNAVAILABLE|UNAVAILABLE: |RETRIES_EXCEEDED",
        SparkSays.SERVER_LOST,
        "the Spark Connect server ends",
        is_provoked=False,  # the client of Spark Connect tries again for two minutes before it raises
    ),
    VendorText(
        # The last one is what pyspark 4.2 raises when it asks for the details of another one.
        r"INVALID_HANDLE\.SESSION_(?:CLOSED|NOT_FOUND|CHANGED)|^\[NO_ACTIVE_SESSION\]",
        SparkSays.SESSION_LOST,
        "the Spark Connect server has been started again, or has closed an idle session",
    ),
    VendorText(
        r"StatusCode\.UNAUTHENTICATED|UNAUTHENTICATED: |Invalid authentication token|No authentication token",
        SparkSays.TOKEN_REFUSED,
        "the token of the URL is not the Spark Connect server's",
    ),
    VendorText("Trace:", SparkSays.JVM_RAISED, "Python calls a method that the JVM does not have"),
    VendorText(
        r"^Exception while sending command\.$", SparkSays.CALL_LOST, "the JVM ends while Python awaits its answer"
    ),
    VendorText(
        r"== SQL(?: of [^\n]*)? \(line (\d+), position (\d+)\) ==", SparkSays.POSITION, "an expression of SQL fails"
    ),
    VendorText(r"line (\d+),? pos (\d+)", SparkSays.POSITION_FROM_ZERO, "the SQL cannot be parsed or resolved"),
    VendorText(
        r'== DataFrame ==\n"(\w+)" was called from\n(\S.*)', SparkSays.CALLED_FROM, "a column of the DataFrame fails"
    ),
)


spark_text = VendorTexts({"Spark": TEXTS}).find
"""Finds a text of a meaning in the text of an error."""


VIEW = "source"
"""The view with the rows for a transform's SQL."""

CAST_TO_ANOTHER = "cast it to another type, such as STRING, in the transform."
_DEBUG = "run it again with --debug, which shows where."
_FUNCTION = "correct the function. --debug shows where it failed."
_FEWER = (
    "let fewer tasks run side by side (spark.master: local[1]), and on a cluster raise spark.executor.memoryOverhead."
)
_MORE = (
    "raise spark.driver.memory, on a cluster spark.executor.memory; let fewer tasks run side by side (spark.master: "
    "local[1]) on a machine that has no more."
)

_MOST_TEXT = 600  # characters of an error of Spark or of the user's code

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
_FRAME = re.compile(r'^ +File "(?P<file>.+?)", line (?P<line>\d+)(?:, in (?P<name>\S+))?$', re.MULTILINE)
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$", re.MULTILINE)
_OTHERS_CODE = re.compile(r"[/\\](?:site-packages|pyspark(?:\.zip)?)[/\\]|^<frozen |^pyarrow/|" + re.escape(_PACKAGE))

# They log each error of a query as JSON with all stack traces before it is raised.
_QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

# The parts of Spark's text that are not shown.
_CONDITION = re.compile(r"^\[[A-Z][A-Z0-9_.]*\] ")
_BEHIND = re.compile(r"\s*SQLSTATE: \w+.*|;\s*line \d+ pos \d+.*|\s*If necessary set .*|\n== .*", re.DOTALL)


def silence_loggers() -> None:
    """Switch off the logging of errors that pyspark and py4j raise."""
    for name in _QUERY_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(OFF)
    root = logging.getLogger()
    if _is_kept not in root.filters:
        root.addFilter(_is_kept)


def _is_kept(record: logging.LogRecord) -> bool:
    return spark_text(record.msg, SparkSays.CALL_LOST) is None


@contextmanager
def spark_errors(transform: Transform | None = None) -> Iterator[None]:
    """Convert errors of Spark in the block, which runs a job, to those of this package.

    A task's own error stays what it is. A failed transform is a TransformError, a lost or too small process a
    TaskLostError, the end of Spark a SparkUnavailableError, and anything else a SourceError.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise job_error(error, transform) from error
    except (Py4JError, ConnectionError) as error:
        raise _gone() from error


def job_error(error: PySparkException | Py4JJavaError, transform: Transform | None = None) -> LakeAssetsError:
    """Return the error of this package for an error of Spark."""
    text = str(error)
    if ended := _ended(error):
        return ended
    if raised := spark_text(text, SparkSays.WORKER_RAISED):
        return _python_error(raised[1], transform)
    if lost := _lost(text):
        return lost
    if transform is not None and isinstance(error, PySparkException):
        return _transform_failed(transform, first_sentence(error), _position_in(text))
    return SourceError(f"the Spark job failed: {last_problem(error)}:", _DEBUG)


def refused_session(url: str, error: PySparkException) -> SparkUnavailableError:
    """Return the error for a server that answers and does not start a session."""
    if spark_text(error, SparkSays.TOKEN_REFUSED):
        return SparkUnavailableError(
            f"the Spark Connect server at {without_parameters(url)} refuses the token, or its lack:",
            "correct the token at the end of the URL, as in sc://host:port/;token=${SPARK_TOKEN}.",
        )
    text = " ".join(str(error).split("\n\nJVM stacktrace")[0].split())[:_MOST_TEXT]
    return SparkUnavailableError(
        f"the Spark Connect server at {without_parameters(url)} starts no session: {text}:",
        f"correct {REMOTE} or SPARK_REMOTE; the server's log has more.",
    )


def refused_sql(error: PySparkException) -> LakeAssetsError:
    """Return the error for a transform's SQL that Spark refuses."""
    if ended := _ended(error):
        return ended
    return TransformError(
        f"the transform's SQL is refused by Spark{_position_in(str(error))}: {first_sentence(error)}:",
        f"correct transform.sql. The rows are in the view `{VIEW}`.",
    )


def refused_result(error: PySparkException, column: str | None = None) -> LakeAssetsError:
    """Return the error for a transform's result, or a column of it, whose type Arrow does not have."""
    if ended := _ended(error):
        return ended
    what = "the transform's result" if column is None else f"column {column!r} of the transform's result"
    return TransformError(f"{what} cannot be written: {first_sentence(error)}:", CAST_TO_ANOTHER)


def failed_function(reference: str, error: BaseException) -> LakeAssetsError:
    """Return the error for a transform's function that raised before it returned its DataFrame."""
    if ended := _ended(error):
        return ended
    text = first_sentence(error) if isinstance(error, Exception) else str(error)
    where = _position_in(str(error)) if isinstance(error, PySparkException) else _frame_of(error)
    return TransformError(f"the transform {reference} raised {type(error).__name__}: {text}{where}:", _FUNCTION)


def first_sentence(error: Exception) -> str:
    """Return Spark's text without its condition, plans and stack traces."""
    text = str(error).strip().split("\n\nJVM stacktrace")[0].split(";\n")[0]
    text = _BEHIND.sub("", _CONDITION.sub("", text)).strip().split("\nSearch path:")[0]
    return " ".join(text.split())[:_MOST_TEXT].rstrip(".:")


def _python_error(traceback: str, transform: Transform | None) -> LakeAssetsError:
    """Return the error for an exception in a Python worker, from its traceback."""
    frames = list(_FRAME.finditer(traceback))
    raised = _RAISED.search(traceback, frames[-1].end() if frames else 0)
    name, text = (raised["type"], raised["text"] or "") if raised else ("an error", traceback.strip())
    own = name.removeprefix("lake_assets.base.errors.")
    if own != name and hasattr(errors, own):
        kind: type[LakeAssetsError] = getattr(errors, own)
        return kind(text)
    if error := worker_refusal(text):
        return error
    if spark_text(name, SparkSays.WORKER_MEMORY):
        return TaskLostError(f"a Python worker of Spark had too little memory ({name}):", _FEWER)
    users = [frame for frame in frames if not _OTHERS_CODE.search(frame["file"])]
    where = f" at {users[-1]['file']}, line {users[-1]['line']}" if users else ""
    problem = f"{name}: {' '.join(text.split())[:_MOST_TEXT]}".rstrip(".: ")
    if transform is not None:
        return _transform_failed(transform, problem, where)
    return SourceError(f"the Spark job failed{where}: {problem}:", _DEBUG)


def _lost(text: str) -> LakeAssetsError | None:
    """Return the error for a process that ended or had too little memory; None if the text names none."""
    if spark_text(text, SparkSays.WORKER_LOST):
        return TaskLostError(
            "a Python worker of Spark was killed, or ended, while it ran a task, at each try:",
            f"most likely the machine had too little memory: {_FEWER} Code of a transform must not end its process.",
        )
    if spark_text(text, SparkSays.JVM_MEMORY):
        return TaskLostError("Spark's JVM had too little memory:", _MORE)
    if spark_text(text, SparkSays.EXECUTOR_LOST):
        return TaskLostError(
            "an executor of Spark was lost while it ran a task, at each try:",
            "often it lacked memory: raise spark.executor.memory and spark.executor.memoryOverhead. Then run it again.",
        )
    return None


def _is_gone(error: BaseException) -> bool:
    """Return whether the JVM or the Connect server has ended or does not answer, by the error and its causes."""
    if has_ended():
        return True
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, PySparkException) and spark_text(seen, SparkSays.SERVER_LOST):
            return True
        # An error that the JVM raised has a trace.
        is_of_call = isinstance(seen, Py4JError) and not isinstance(seen, Py4JJavaError)
        if is_of_call and not spark_text(seen, SparkSays.JVM_RAISED):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _ended(error: BaseException) -> LakeAssetsError | None:
    """Return the error for a session, JVM or server that an error says has ended; None if it says nothing of them."""
    if not (isinstance(error, PySparkException) and spark_text(error, SparkSays.SESSION_LOST)):
        return _gone(error) if _is_gone(error) else None
    end_lost_sessions()
    return SessionLostError(
        "the Spark Connect server no longer has this session, because it was started again or has closed it:",
        "run it again, which starts a new session.",
    )


def _gone(error: BaseException | None = None) -> SparkUnavailableError:
    if error is not None and spark_text(error, SparkSays.SERVER_LOST):
        return SparkUnreachableError(
            "the Spark Connect server ended, or was lost, while it was at work:",
            "often it lacked memory: start it again, with more of spark.driver.memory. Then run it again.",
        )
    if (jvm := shared_jvm()) is not None:
        jvm.leave()  # the system may not have closed all that an ended process held yet
        return SessionLostError(
            "the JVM that processes of this machine share ended, or was lost, while it was at work:",
            f"often it lacked memory: {_MORE}",
        )
    return SparkUnavailableError(
        "Spark's JVM ended, or was lost, while it was at work:", f"often it lacked memory: {_MORE}"
    )


def _transform_failed(transform: Transform, problem: str, where: str) -> TransformError:
    if transform.function is not None:
        return TransformError(f"the transform {transform.function} failed{where}: {problem}:", _FUNCTION)
    return TransformError(
        f"the transform's SQL failed{where}: {problem}:", "correct transform.sql, or land rows that it can take."
    )


def _position_in(text: str) -> str:
    """Return the position of the error in the SQL, or the line of a function."""
    if position := spark_text(text, SparkSays.POSITION):
        return f" at line {position[1]}, column {position[2]}"
    if position := spark_text(text, SparkSays.POSITION_FROM_ZERO):
        return f" at line {position[1]}, column {int(position[2]) + 1}"
    if call := spark_text(text, SparkSays.CALLED_FROM):
        file, _, line = call[2].strip().rpartition(":")
        return f" at {file}, line {line}, in {call[1]}"
    return ""


def _frame_of(error: BaseException) -> str:
    """Return the last line of the user's own code in the traceback of an error."""
    where, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not _OTHERS_CODE.search(file):
            where = f" at {file}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return where


def last_problem(error: Exception) -> str:
    """Return the line with the problem in an error that consists of stack traces."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("at ")]
    raised = next((line for line in reversed(lines) if "Error" in line or "Exception" in line), lines[0])
    return raised.removeprefix(": ").removeprefix("Caused by: ")[:_MOST_TEXT].rstrip(".:")
