"""The stack's command in tests, and folders whose stack ends with the test."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from dev.servers.process import running
from dev.stack.configs import lake_document
from dev.stack.site import Ports, Site


def stack(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of the stack."""
    command = [sys.executable, "-m", "dev.stack", *arguments, "--folder", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


# Stops the stack of a folder when it is interrupted.
STOPPER = """
import signal, subprocess, sys
try:
    signal.pause()
except KeyboardInterrupt:
    subprocess.call([sys.executable, "-m", "dev.stack", "stop", "--folder", sys.argv[1]])
"""


@contextmanager
def stack_folder() -> Iterator[Path]:
    """The folder of a stack, which ends with the block, also where the tests are killed."""
    result = Path(tempfile.mkdtemp(prefix="lake-assets-stack-"))
    with running([sys.executable, "-c", STOPPER, str(result)], folder=result, ready=lambda: True, grace=240):
        yield result


@contextmanager
def started_stack(change: Callable[[Site, dict[str, Any]], None], *components: str) -> Iterator[Site]:
    """A stack.

    Args:
        change: gets the site and the document of its `lake.yaml`, before it is written.
        components: that are started; all without any.
    """
    with stack_folder() as folder:
        site = Site.at(folder, Ports.free())
        document = lake_document(site)
        change(site, document)
        site.lake_config.write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
        done = stack("up", *components, "--detach", folder=folder)
        assert done.returncode == 0, done.stdout + done.stderr
        yield site
