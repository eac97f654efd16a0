"""Whether Dagster's code server does its work; one that does not for a minute starts its second process again.

    python -m lake_assets.code_server 4000

`dagster code-server start` is two processes: one listens, and hands each question on to another one, which has loaded
the definitions. Nothing starts the second one again if it is killed alone, and the first one calls itself healthy. This
command is for what supervises the server: systemd, a container's health check, a probe. Runs go on meanwhile.
"""

import sys
import time

import grpc  # type: ignore[import-untyped]

PATIENCE = 60.0  # seconds without an answer
ANSWER_SECONDS, LOAD_SECONDS = 10.0, 60.0  # for an answer, and until the definitions are loaded
PAUSE = 2.0  # seconds between two questions


def calls(port: int, method: str, seconds: float) -> bool:
    """Return whether the server on this machine answers a call of Dagster's protocol, without parameters, in time."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            channel.unary_unary(f"/api.DagsterApi/{method}")(b"", timeout=seconds)
        except grpc.RpcError:
            return False
    return True


def repaired(port: int) -> bool:
    """Let the server start its second process again; returns whether it answers then."""
    calls(port, "ReloadCode", LOAD_SECONDS)  # an error may be only that the old process does not end
    return calls(port, "Ping", ANSWER_SECONDS)


def answers(port: int) -> bool:
    """Return whether the server answers, at the latest after a repair."""
    until = time.monotonic() + PATIENCE
    while not calls(port, "Ping", ANSWER_SECONDS):
        if time.monotonic() > until:
            return repaired(port)
        time.sleep(PAUSE)
    return True


if __name__ == "__main__":
    sys.exit(not answers(int(sys.argv[1])))
