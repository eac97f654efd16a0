"""What Spark, its JVM and its Python workers say: every text that tells one error from another.

Each text is provoked on the real Spark by `spark/test_vendor_errors.py`, unless the table gives the reason why not.
"""

from enum import Enum, auto

from lake_assets.base.vendor_texts import VendorText, VendorTexts


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
