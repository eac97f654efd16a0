"""Faults of the storage."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dev.servers.proxy import Request, S3Proxy
from dev.servers.proxy import Rule as RequestRule
from dev.servers.s3 import S3Server
from lake_assets_tests.faults.bench import ALWAYS, AWAY, Bench, Case
from lake_assets_tests.faults.operations import Operation
from lake_assets_tests.faults.outage import Outage
from lake_assets_tests.faults.template import Template
from lake_assets_tests.world import World
from lake_assets_tests.world_fixtures import bucket_on

# A storage that may be away for five seconds, and one that is given up at once, or when it has not answered.
PATIENT = {"retries": 100, "first_wait": 0.05}
IMPATIENT = {"retries": 0}
HURRIED = IMPATIENT | {"timeout": 3}


class S3Bench(Bench):
    """The lake, its landing zone and what is beside it are in buckets behind the proxy; the catalog is SQLite."""

    section = "The storage"
    faults = ("refused", "reset", "503", "slow", "truncated", "answer lost", "answer broken")
    lasting = ("refused", "reset", "503", "truncated", "answer lost", "hung")

    def __init__(self, operation: Operation, world: World, folder: Path, proxy: S3Proxy, s3: S3Server) -> None:
        self.proxy, self.s3 = proxy, s3
        world.storage, world.source = self._bucket(), self._bucket()
        world.options = dict(operation.options)
        world.options |= {name: {"to": self._bucket(), **value} for name, value in operation.beside.items()}
        super().__init__(operation, world, folder)

    def _bucket(self) -> dict[str, Any]:
        return bucket_on(self.proxy.s3) | {"requests": PATIENT}

    def _hurried(self, requests: dict[str, Any]) -> World:
        world, hurry = self.world, {"requests": requests}
        options = dict(world.options)
        options |= {name: options[name] | {"to": options[name]["to"] | hurry} for name in self.operation.beside}
        return replace(world, storage=world.storage | hurry, source=world.source | hurry, options=options, _opened=None)

    def _template(self) -> Template:
        return Template.of(self.world, self.folder / "template", self.s3, None)

    def begin_recording(self) -> None:
        self.proxy.forget()

    def recorded(self) -> list[str]:
        return list(dict.fromkeys(self.step_of(request) for request in self.proxy.requests()))

    def names(self) -> Sequence[str]:
        return (self.proxy.s3.endpoint, self.world.storage["bucket"], *self._others)

    @cached_property
    def _others(self) -> list[str]:
        return [self.world.source["bucket"], *self._beside]

    @cached_property
    def _beside(self) -> dict[str, str]:
        """What the files in the operation's other buckets are."""
        kinds = {"deltas": "exported file", "dead_letters": "dead letter"}
        return {self.world.options[name]["to"]["bucket"]: kinds[name] for name in self.operation.beside}

    def documented(self, step: str) -> str:
        return step

    def is_possible(self, step: str, fault: str) -> bool:
        if step.startswith("copy"):
            return fault != "hung"  # a copy by the store may take ten minutes
        return fault not in {"truncated", "answer broken"} or not step.startswith("look at")  # which has no body

    def step_of(self, request: Request) -> str:
        """What the request is for."""
        own = {self.world.storage["bucket"]: "data file", self.world.source["bucket"]: "landed object"}
        what = (own | self._beside)[request.bucket]
        if request.key.endswith("_latest.json"):
            return "write _latest.json"
        if not request.key:
            return f"delete a {what}" if "delete" in request.query else f"list the {what}s"
        verbs = {"GET": "read", "HEAD": "look at", "PUT": "copy" if request.copies else "write", "DELETE": "delete"}
        return f"{verbs.get(request.method, 'write')} a {what}".replace("a exported", "an exported")

    def inject(self, case: Case) -> None:
        def when(request: Request) -> bool:
            return self.step_of(request) == case.step

        times = ALWAYS if case.lasts else 1
        # A time limit only where nothing is answered: a busy machine exceeds it at other requests too.
        self.hurried = self._hurried(HURRIED if case.fault == "hung" else IMPATIENT)
        match case.fault:
            case "refused":
                outage = Outage(self.proxy, when, 600 if case.lasts else AWAY)
                self.end = outage.end
                self.proxy.inject(RequestRule("hang_up", outage))
            case "slow":
                self.proxy.inject(RequestRule("slow", when, times, seconds=AWAY))
            case fault:
                kinds: dict[str, Any] = {
                    "reset": "hang_up",
                    "503": "status",
                    "truncated": "truncate",
                    "answer lost": "lose_answer",
                    "answer broken": "reset_body",
                    "hung": "hang",
                }
                self.proxy.inject(RequestRule(kinds[fault], when, times))

    def heal(self) -> None:
        self.end()
        self.end = lambda: None
        self.proxy.heal()
