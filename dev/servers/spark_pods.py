"""A server of the few calls of Kubernetes that a Spark driver makes, whose pods are processes of this machine.

It is not Kubernetes: it schedules nothing and checks no rights. It keeps each request as the verb and the resource that
a role permits, and executes the command of a pod's container by the image's entry point, with its environment.
"""

import json
import os
import signal
import subprocess
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ENTRY = Path(__file__).parents[2] / "deploy/image/lake-run"
ADDRESS = "127.0.0.1"  # of each pod
_COLLECTION = 6  # parts of /api/v1/namespaces/NAME/RESOURCE, with the empty one at the beginning


@dataclass
class Cluster:
    """What the driver asked for.

    Attributes:
        url: of the server.
        folder: each pod's container has a folder of its own in it, with its output.
        requests: verb and resource of each request.
        pods: each pod that was created, by its name, as it was asked for.
    """

    url: str
    folder: Path
    requests: list[tuple[str, str]] = field(default_factory=list)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    _living: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def create(self, pod: dict[str, Any]) -> None:
        """Start the process of the pod's container."""
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        variables = {entry["name"]: _value(entry) for entry in container["env"]}
        place = self.folder / name
        place.mkdir()
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
        with (place / "log").open("wb") as log:
            self._living[name] = subprocess.Popen(
                [ENTRY, *container["args"]],
                cwd=place,
                env={"PATH": path, "HOME": str(place), "LAKE_SECRETS": str(place)} | variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pods[name] = pod

    def delete(self, name: str | None = None) -> None:
        """End the processes of a pod, or of all pods."""
        for found in [name] if name else list(self._living):
            process = self._living.pop(found, None)
            if process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def living(self) -> list[dict[str, Any]]:
        """The pods as Kubernetes lists them."""
        status = {"phase": "Running", "podIP": ADDRESS}
        return [self.pods[name] | {"status": status} for name in self._living]


def _value(entry: dict[str, Any]) -> str:
    """The value of a container's variable; the pod's address if it is taken from the pod."""
    if "value" in entry:
        return str(entry["value"])
    path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    return ADDRESS if path == "status.podIP" else ""


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """The server, on a free port; at the end its pods are gone."""
    server = ThreadingHTTPServer((ADDRESS, 0), _Handler)
    server.daemon_threads = True
    found = Cluster(f"http://{ADDRESS}:{server.server_port}", folder)
    server.cluster = found  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        found.delete()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _cluster(self) -> Cluster:
        return self.server.cluster  # type: ignore[attr-defined, no-any-return]

    def _asked(self, verb: str) -> tuple[str, str | None]:
        """Keep the request; its resource, and the object's name if it has one."""
        parts = urlsplit(self.path).path.split("/")
        resource, name = parts[_COLLECTION - 1], parts[_COLLECTION] if len(parts) > _COLLECTION else None
        self._cluster.requests.append((verb, resource))
        return resource, name

    def _answer(self, document: dict[str, Any], status: int = 200) -> None:
        body = json.dumps({"apiVersion": "v1"} | document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        collection = len(urlsplit(self.path).path.split("/")) == _COLLECTION
        if "watch" in query:
            self._asked("watch")
            # The driver looks at the list from time to time, too; its watches see nothing.
            self._answer({"kind": "Status", "status": "Failure", "code": 503}, 503)
        elif collection:
            resource, _ = self._asked("list")
            items = self._cluster.living() if resource == "pods" else []
            self._answer({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})
        else:
            _, name = self._asked("get")
            known = {pod["metadata"]["name"]: pod for pod in self._cluster.living()}
            driver = {
                "metadata": {"name": name, "uid": "1"},
                "spec": {"containers": []},
                "status": {"phase": "Running"},
            }
            self._answer({"kind": "Pod"} | known.get(str(name), driver))

    def do_POST(self) -> None:
        resource, _ = self._asked("create")
        document = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if resource == "pods":
            self._cluster.create(document)
        self._answer(document, 201)

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        collection = len(urlsplit(self.path).path.split("/")) == _COLLECTION
        resource, name = self._asked("deletecollection" if collection else "delete")
        if resource == "pods":
            self._cluster.delete(name)
        self._answer({"kind": "Status", "status": "Success"})

    def do_PATCH(self) -> None:
        self._asked("patch")
        self._answer({"kind": "Pod"} | json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def log_message(self, *_: object) -> None:
        pass
