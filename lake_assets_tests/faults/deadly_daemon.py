"""A daemon of Spark's Python workers: a worker's second copy kills the whole run, with no chance to clean up.

The setting `spark.python.daemon.module` has this module. The driver is the leader of the run's session of processes.
The environment variable LAKE_ASSETS_DEATH says how the second copy is made, and where it ends. It may also be a
file of dead letters.
"""

import itertools
import os
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import psutil

from lake_assets.spark.task import bad_row_sink
from lake_assets.storage import folder, s3

VARIABLE = "LAKE_ASSETS_DEATH"
PART = 5 * 2**20  # bytes; the least of S3

_ONE_BY_ONE = threading.Lock()


def kill_run() -> NoReturn:
    """Kill the driver, the JVM, the daemon and its workers, of which this process is one."""
    driver = psutil.Process(os.getsid(0))
    for process in (driver, *driver.children(recursive=True)):
        if process.pid != os.getpid():
            process.kill()
    os.kill(os.getpid(), 9)
    raise AssertionError


def second(first: Callable[..., Any], then: Callable[..., Any]) -> Callable[..., Any]:
    """The first call of a process does the one thing, and the second one the other, and kills the run."""
    calls = itertools.count()

    def call(*args: Any, **options: Any) -> Any:
        with _ONE_BY_ONE:
            if next(calls) == 0:
                return first(*args, **options)
            then(*args, **options)
            kill_run()

    return call


def half(file: int, target: int, size: int) -> None:
    """Fill the file with the first half of the bytes."""
    os.sendfile(target, file, 0, size // 2)


def unfinished(bucket: s3.S3Bucket, client: Any, *arguments: Any) -> None:
    """Copy all parts of an object without completing the upload."""
    client.complete_multipart_upload = lambda **_: kill_run()
    copy_parts(bucket, client, *arguments)


copy_parts = s3.S3Bucket._copy_parts

if __name__ == "__main__":
    from pyspark import daemon

    module: Any = folder
    bucket: Any = s3.S3Bucket
    match os.environ[VARIABLE]:
        case "bytes":
            module.fill = second(module.fill, half)
        case "link":
            module._links = second(module._links, module._links)
        case "store":
            bucket.copied_from = second(bucket.copied_from, bucket.copied_from)
        case "letter":
            letter: Any = bad_row_sink._Letter
            letter.close = second(letter.close, letter.close)
        case "parts":
            s3.COPIED_WHOLE = s3.PART = PART
            bucket._copy_parts = second(copy_parts, unfinished)
    daemon.manager()
