"""The driver's messages on standard error: nothing else of the process, or of its children, is among them."""

import io
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

from dagster_pipes import PipesDefaultContextLoader, PipesDefaultMessageWriter

from lake_assets.launch.pipes import variables
from lake_assets.remote.channels import _Lines

DRIVER = """\
import os, subprocess, sys, threading
from lake_assets.remote.channels import open_pipes

print("before", file=sys.stderr)
with open_pipes() as pipes:
    print("noise of Python", file=sys.stderr)
    os.write(2, b"half a line of the JVM")
    subprocess.run(["sh", "-c", "echo noise of a child >&2"], check=True)

    def report(number):
        for index in range(200):
            pipes.report_custom_message({"number": number, "index": index, "text": "x" * 5000})

    threads = [threading.Thread(target=report, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("after", file=sys.stderr)
"""


def test_messages_on_standard_error_are_alone_and_whole() -> None:
    context: dict[str, Any] = {"extras": {}, "run_id": "r1", "job_name": None, "retry_number": 0}
    own = variables(
        {PipesDefaultContextLoader.DIRECT_KEY: context},
        {PipesDefaultMessageWriter.STDIO_KEY: PipesDefaultMessageWriter.STDERR},
    )
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], env=os.environ | own, capture_output=True, text=True, check=True
    )

    before, *lines = done.stderr.splitlines()
    assert before == "before"
    messages = [json.loads(line) for line in lines]
    payloads = [m["params"]["payload"] for m in messages if m["method"] == "report_custom_message"]
    sent = {(number, index) for number in range(4) for index in range(200)}
    assert {(payload["number"], payload["index"]) for payload in payloads} == sent
    assert (messages[0]["method"], messages[-1]["method"]) == ("opened", "closed")
    for noise in ("noise of Python", "half a line of the JVM", "noise of a child", "after"):
        assert noise in done.stdout


def test_messages_of_several_threads_are_whole_although_text_streams_are_not_safe_for_threads() -> None:
    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            for character in text:
                super().write(character)
                time.sleep(0)  # another thread may write now
            return len(text)

    stream = Slow()
    lines = _Lines(stream)
    start = threading.Barrier(4)

    def report(number: int) -> None:
        start.wait()
        for _ in range(50):
            lines.write_message({"number": number})

    threads = [threading.Thread(target=report, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = sorted(json.loads(line)["number"] for line in stream.getvalue().splitlines())
    assert found == [number for number in range(4) for _ in range(50)]
