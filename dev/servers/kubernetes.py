"""A server of Kubernetes' API for pods, which executes the command of a pod's container as a process of this machine.

No real API server and kubelet run here without root and images. This one speaks HTTP as they do for pods: create, list,
log, delete. It checks each pod by Kubernetes' own schema, breaks long lines of a log as containerd does, and gives a
deleted pod SIGTERM and its grace period.
"""

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import pytest
import yaml

VERSION = "1.33"
PIECE = 16 * 1024  # bytes of a line that containerd keeps together


@dataclass
class Pod:
    """A pod and the process of its container."""

    body: dict[str, Any]
    process: "subprocess.Popen[bytes] | None" = None
    pieces: list[bytes] = field(default_factory=list)
    readers: list[threading.Thread] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: dict[str, str] | None = None
    is_deleted: bool = False
    longest_message: int = 0  # bytes of a line of standard error
    parts: int = 0  # of messages, in the log

    @property
    def code(self) -> int | None:
        """The exit code of the container; None while it runs."""
        if self.process is None or self.process.poll() is None or any(reader.is_alive() for reader in self.readers):
            return None
        code = self.process.returncode
        return code if code >= 0 else 128 - code

    def follow(self, stream: Any) -> None:
        """Keep what the container writes to one stream, line by line; a long line in pieces without their ends."""
        with stream:
            for line in stream:
                if self.process is not None and stream is self.process.stderr:
                    self.longest_message = max(self.longest_message, len(line))
                    self.parts += b'"kind": "part"' in line
                for start in range(0, len(line), PIECE):
                    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z "
                    with self.lock:
                        time.sleep(2e-6)  # no two lines have one time
                        self.pieces.append(now.encode() + line[start : start + PIECE])

    @property
    def seen(self) -> dict[str, Any]:
        """The pod as the API shows it."""
        now = "2026-02-11T00:00:00Z"
        if self.waiting is not None:
            state: dict[str, Any] = {"waiting": self.waiting}
        elif self.code is None:
            state = {"running": {"startedAt": now}}
        else:
            reason = "OOMKilled" if self.code == 137 else "Error" if self.code else "Completed"
            state = {"terminated": {"exitCode": self.code, "reason": reason, "startedAt": now, "finishedAt": now}}
        phase = (
            "Pending" if self.waiting else "Running" if self.code is None else "Failed" if self.code else "Succeeded"
        )
        container = self.body["spec"]["containers"][0]
        status = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": "running" in state,
            "restartCount": 0,
            "state": state,
        }
        return self.body | {"status": {"phase": phase, "containerStatuses": [status]}}


@dataclass
class Cluster:
    """The server's address and its pods.

    Attributes:
        pods: those that exist, by name.
        created: the bodies of all that were created.
        ended: the pods that were deleted.
        secrets, config_maps: variables by the name of the object.
        refusal: answers each creation with this, if set.
        waiting: a state in which new pods stay, if set.
        deletes: whether pods may be deleted.
        breaks_logs: whether the connection is lost after the first piece of a log.
    """

    address: str
    folder: Path
    pods: dict[str, Pod] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)
    ended: list[Pod] = field(default_factory=list)
    deletions: list[threading.Thread] = field(default_factory=list)
    secrets: dict[str, dict[str, str]] = field(default_factory=dict)
    config_maps: dict[str, dict[str, str]] = field(default_factory=dict)
    refusal: tuple[int, str] | None = None
    waiting: dict[str, str] | None = None
    deletes: bool = True
    breaks_logs: bool = False

    @property
    def kubeconfig(self) -> str:
        """The path of a file with the server's address."""
        file = self.folder / "kubeconfig"
        context = {"name": "test", "context": {"cluster": "test", "user": "me", "namespace": "lake"}}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [context],
            "clusters": [{"name": "test", "cluster": {"server": self.address}}],
            "users": [{"name": "me", "user": {}}],
        }
        file.write_text(yaml.safe_dump(document), encoding="utf-8")
        return str(file)

    def create(self, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        """Check a pod by Kubernetes' schema, and start its container."""
        body = {"apiVersion": "v1", "kind": "Pod"} | body
        kubernetes_validate.validate(body, VERSION, strict=True)
        self.created.append(body)
        body["metadata"] = {**body["metadata"], "namespace": namespace}
        pod = self.pods[body["metadata"]["name"]] = Pod(body, waiting=self.waiting)
        if self.waiting is None:
            self._start(pod)
        return pod.seen

    def _start(self, pod: Pod) -> None:
        container = pod.body["spec"]["containers"][0]
        path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        variables = {name: os.environ[name] for name in ("HOME", "JAVA_HOME") if name in os.environ} | path
        for source in container.get("envFrom", ()):
            if "secretRef" in source:
                variables |= self.secrets[source["secretRef"]["name"]]
            else:
                variables |= self.config_maps[source["configMapRef"]["name"]]
        variables |= {entry["name"]: entry["value"] for entry in container.get("env", ())}
        pod.process = subprocess.Popen(
            container["command"],
            cwd=self.folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        for stream in (pod.process.stdout, pod.process.stderr):
            pod.readers.append(threading.Thread(target=pod.follow, args=(stream,), daemon=True))
            pod.readers[-1].start()

    def delete(self, name: str) -> None:
        """End a pod: SIGTERM to its first process, and SIGKILL to all after the grace period."""
        pod = self.pods[name]
        if pod.is_deleted:
            return
        pod.is_deleted = True
        self.deletions.append(threading.Thread(target=self._end, args=(name, pod), daemon=True))
        self.deletions[-1].start()

    def settle(self) -> None:
        """Wait until the pods that were deleted are gone."""
        for thread in self.deletions:
            thread.join(120)

    def _end(self, name: str, pod: Pod) -> None:
        if pod.process is not None:
            with suppress(ProcessLookupError):
                pod.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                pod.process.wait(pod.body["spec"]["terminationGracePeriodSeconds"])
            with suppress(ProcessLookupError):
                os.killpg(pod.process.pid, signal.SIGKILL)
            for reader in pod.readers:
                reader.join(60)
        self.ended.append(self.pods.pop(name))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: ClassVar[Cluster]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        _, _, _, _, namespace, _ = self.path.split("?")[0].split("/")
        if self.cluster.refusal is not None:
            code, text = self.cluster.refusal
            self._answer(code, {"kind": "Status", "apiVersion": "v1", "code": code, "message": text})
            return
        self._answer(201, self.cluster.create(namespace, body))

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        words = parts.path.split("/")
        if words[-1] == "log":
            self._log(self.cluster.pods[words[-2]], has_times=query.get("timestamps") == "True")
        elif words[-1] == "pods":
            self._answer(
                200, {"apiVersion": "v1", "kind": "PodList", "items": list(self._found(query)), "metadata": {}}
            )
        else:
            self._answer(404, {"message": f"no {parts.path}"})

    def do_DELETE(self) -> None:
        name = self.path.split("?")[0].rsplit("/", 1)[-1]
        if not self.cluster.deletes:
            self._answer(403, {"kind": "Status", "apiVersion": "v1", "code": 403, "message": "not deleted"})
            return
        if name not in self.cluster.pods:
            self._answer(404, {"kind": "Status", "apiVersion": "v1", "code": 404, "message": f"no pod {name}"})
            return
        self._answer(200, self.cluster.pods[name].seen)
        self.cluster.delete(name)

    def _found(self, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        for name, pod in list(self.cluster.pods.items()):
            labels = pod.body["metadata"].get("labels", {})
            wanted = query.get("labelSelector", "").partition("=")
            if query.get("fieldSelector", f"metadata.name={name}") == f"metadata.name={name}" and (
                not wanted[0] or labels.get(wanted[0]) == wanted[2]
            ):
                yield pod.seen

    def _log(self, pod: Pod, *, has_times: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent = 0
        with suppress(BrokenPipeError, ConnectionResetError):
            while True:
                has_ended = pod.code is not None
                for written in pod.pieces[sent:]:
                    piece = written if has_times else written.partition(b" ")[2]
                    self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                    sent += 1
                if sent and self.cluster.breaks_logs:
                    self.close_connection = True
                    return
                if has_ended and sent == len(pod.pieces):
                    break
                time.sleep(0.05)
            self.wfile.write(b"0\r\n\r\n")

    def _answer(self, code: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Nothing."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster without pods."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    handler = type("Handler", (_Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    found = Cluster(f"http://127.0.0.1:{server.server_port}", folder)
    handler.cluster = found  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr("lake_assets.launch.kubernetes.POLL_SECONDS", 0.2)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    try:
        yield found
    finally:
        for pod in found.pods.values():
            if pod.process is not None and pod.process.poll() is None:
                os.killpg(pod.process.pid, signal.SIGKILL)
        server.shutdown()
        server.server_close()
