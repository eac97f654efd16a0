"""Faults at every step of an operation: each case begins with the same lake, and ends with a sound one.

The steps of an operation are recorded once, without a fault. A case is a step and a fault. A fault is short, and then
the next request or statement of that step is the only one that it hits; or it lasts, until the operation has failed.
Then the faults are over, and the operation runs again.
"""

import math
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lake_assets.errors import LakeAssetsError
from lake_assets_tests.faults.operations import NotCompactedError, Operation
from lake_assets_tests.faults.outage import Outage
from lake_assets_tests.faults.sound import assert_sound
from lake_assets_tests.faults.template import Template
from lake_assets_tests.servers.postgres import PostgresServer
from lake_assets_tests.servers.postgres_proxy import CONNECT, PostgresProxy, Statement
from lake_assets_tests.servers.postgres_proxy import Rule as StatementRule
from lake_assets_tests.servers.proxy import Request, S3Proxy
from lake_assets_tests.servers.proxy import Rule as RequestRule
from lake_assets_tests.servers.s3 import S3Server
from lake_assets_tests.world import World
from lake_assets_tests.world_fixtures import bucket_on, database_on

ALWAYS = 10**6  # times that a lasting fault happens
AWAY = 0.2  # seconds of a short outage
# A storage that may be away for a second, and one that is given up at once.
PATIENT = {"retries": 20, "first_wait": 0.05}
IMPATIENT = {"retries": 0, "timeout": 1, "connect_timeout": 1}


@dataclass(frozen=True)
class Case:
    """A fault at a step of an operation."""

    step: str
    fault: str
    lasts: bool

    def __str__(self) -> str:
        return f"{self.fault}{' that lasts' if self.lasts else ''} at {self.step!r}"


@dataclass(frozen=True)
class Result:
    """The outcome of the operation: its error, or None."""

    case: Case
    error: Exception | None


class Bench(ABC):
    """An operation, the lake that it begins with, and a server whose answers can fail."""

    section = ""  # of docs/faults.md
    faults: Sequence[str] = ()
    lasting: Sequence[str] = ()

    def __init__(self, operation: Operation, world: World, folder: Path) -> None:
        self.operation = operation
        self.world = world
        self.hurried = world  # while a fault lasts
        self.folder = folder
        self.end: Callable[[], None] = lambda: None  # of the outage of the present case
        operation.prepare(world)
        self.before = self.rows()
        self.template = self._template()
        self.begin_recording()
        operation.run(world)
        self.steps = self.recorded()
        self.after = self.rows()

    @abstractmethod
    def _template(self) -> Template:
        """The present state."""

    @abstractmethod
    def begin_recording(self) -> None:
        """Forget the steps so far."""

    @abstractmethod
    def recorded(self) -> list[str]:
        """The steps since then, each once, in order."""

    @abstractmethod
    def documented(self, step: str) -> str:
        """The name of the step in the docs."""

    @abstractmethod
    def inject(self, case: Case) -> None:
        """Let the fault of the case happen."""

    @abstractmethod
    def heal(self) -> None:
        """End all faults."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """What an error may name: the server, its storages, or the lake's catalog."""

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of the lake by a plain client."""
        return self.world.query("SELECT id, total, region, date::VARCHAR FROM lake.sales ORDER BY ALL")

    def cases(self) -> list[Case]:
        """The faults at each step: short ones, and ones that last."""
        return [
            Case(step, fault, lasts)
            for number, step in enumerate(self.steps)
            for lasts, faults in ((False, self.faults_at(number)), (True, self.lasting_at(number)))
            for fault in faults
            if self.is_possible(step, fault)
        ]

    def covering(self, share: int, shares: int) -> list[Case]:
        """A few cases at different steps; all shares together have each fault, some twice."""
        faults = [(fault, False) for fault in self.faults] + [(fault, True) for fault in self.lasting]
        count = math.ceil(1.5 * len(faults) / shares)
        chosen = [faults[number % len(faults)] for number in range(share * count, (share + 1) * count)]
        steps = self.steps[share % len(self.steps) :] + self.steps
        return [
            Case(next(step for step in steps[number:] if self.is_possible(step, fault)), fault, lasts)
            for number, (fault, lasts) in enumerate(chosen)
        ]

    def is_possible(self, step: str, fault: str) -> bool:  # noqa: ARG002
        """Whether a step can have this fault."""
        return True

    def faults_at(self, number: int) -> Sequence[str]:  # noqa: ARG002 - all at each step, by default
        """The short faults at the step of this number."""
        return self.faults

    def lasting_at(self, number: int) -> Sequence[str]:  # noqa: ARG002
        """The lasting faults at the step of this number."""
        return self.lasting

    def run(self, case: Case) -> Result:
        """Run the operation under the fault of the case, and again without it.

        Raises:
            AssertionError: something is wrong after the fault, or after the second run.
        """
        self.template.restore()
        self.inject(case)
        world = self.hurried if case.lasts else self.world
        try:
            error = self._error(world)
        finally:
            self.heal()
        if error is None:
            assert self.rows() == self.after, "the operation succeeded, with other rows"
        else:
            self._check_error(error)
            assert self.rows() in (self.before, self.after), "the operation failed, and a reader sees a third state"
        self._check_sound()
        self.operation.run(self.world)
        assert self.rows() == self.after, "the next run succeeded, with other rows"
        self._check_sound()
        return Result(case, error)

    def failures(self, cases: Sequence[Case]) -> tuple[list[Result], list[str]]:
        """The results of cases, and what is wrong in those that failed."""
        results, wrong = [], []
        for case in cases:
            try:
                results.append(self.run(case))
            except Exception as error:  # noqa: BLE001 - shown with the others
                wrong.append(f"{self.operation.name}: {case}: {''.join(traceback.format_exception(error)[-3:])}")
        return results, wrong

    def _error(self, world: World) -> Exception | None:
        try:
            self.operation.run(world)
        except Exception as error:  # noqa: BLE001 - the outcome
            return error
        return None

    def _check_error(self, error: Exception) -> None:
        assert isinstance(error, LakeAssetsError | NotCompactedError), "".join(traceback.format_exception(error))
        text = str(error)
        assert "Traceback" not in text
        assert any(name in text for name in self.names()), f"the error names nothing: {text}"

    def _check_sound(self) -> None:
        columns = ("id", "total", "region", "date")
        present = self.rows()
        rows = [dict(zip(columns, row, strict=True)) for row in present]
        assert_sound(
            self.world,
            rows,
            landed=present == self.after and self.operation.is_landed,
            cleaning=self.operation.name == "clean-up",
        )


class S3Bench(Bench):
    """The lake, its landing zone and its exports are in buckets behind the proxy; the catalog is a SQLite file."""

    section = "The storage"
    faults = ("refused", "reset", "503", "slow", "truncated", "answer lost", "answer broken")
    lasting = ("refused", "reset", "503", "truncated", "answer lost", "hung")

    def __init__(self, operation: Operation, world: World, folder: Path, proxy: S3Proxy, s3: S3Server) -> None:
        self.proxy, self.s3 = proxy, s3
        world.storage, world.source = self._bucket(), self._bucket()
        world.options = dict(operation.options)
        if operation.exports:
            world.options["deltas"] = {"to": self._bucket(), "latest": True}
        super().__init__(operation, world, folder)
        self.hurried = self._hurried()

    def _bucket(self) -> dict[str, Any]:
        return bucket_on(self.proxy.s3) | {"requests": PATIENT}

    def _hurried(self) -> World:
        world, hurry = self.world, {"requests": IMPATIENT}
        options = dict(world.options)
        if self.operation.exports:
            options["deltas"] = options["deltas"] | {"to": options["deltas"]["to"] | hurry}
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
        deltas = self.world.options.get("deltas", {}).get("to", {})
        return [self.world.source["bucket"], *([deltas["bucket"]] if deltas else [])]

    def documented(self, step: str) -> str:
        return step

    def is_possible(self, step: str, fault: str) -> bool:
        if step.startswith("copy"):
            return fault != "hung"  # a copy by the store may take ten minutes
        return fault not in {"truncated", "answer broken"} or not step.startswith("look at")  # which has no body

    def step_of(self, request: Request) -> str:
        """What the request is for."""
        where = {self.world.storage["bucket"]: "data file", self.world.source["bucket"]: "landed object"}
        what = where.get(request.bucket, "exported file")
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


class PostgresBench(Bench):
    """The catalog is behind the proxy; the lake, its landing zone and its exports are local folders."""

    section = "The catalog's server"
    faults = ("refused", "reset", "slow", "answer lost", "session ended")
    lasting = ("refused", "reset", "answer lost")

    def faults_at(self, number: int) -> Sequence[str]:
        """The two that say whether the server has done what was asked, and by turns one of the others."""
        others = [fault for fault in self.faults if fault not in {"reset", "answer lost"}]
        return ("reset", "answer lost", others[number % len(others)])

    def lasting_at(self, number: int) -> Sequence[str]:
        return (self.lasting[number % len(self.lasting)],)

    def __init__(
        self, operation: Operation, world: World, folder: Path, proxy: PostgresProxy, server: PostgresServer
    ) -> None:
        self.proxy, self.server = proxy, server
        world.catalog = database_on(proxy.server) | {"connect_timeout": 2}
        world.options = dict(operation.options)
        if operation.exports:
            world.options["deltas"] = {"to": {"type": "local", "path": str(folder / "deltas")}, "latest": True}
        super().__init__(operation, world, folder)

    def _template(self) -> Template:
        return Template.of(self.world, self.folder / "template", None, self.server)

    def begin_recording(self) -> None:
        self.proxy.forget()

    def recorded(self) -> list[str]:
        """Connections, and the statements with their numbers among those of their kind: the first and the last of
        a kind, and each COMMIT.
        """
        kinds = [statement.kind for statement in self.proxy.statements]
        steps = [CONNECT]
        for kind in dict.fromkeys(kinds):
            count = kinds.count(kind)
            numbers = range(1, count + 1) if kind == "COMMIT" else sorted({1, count})
            steps += [f"{kind} ({number})" for number in numbers]
        return steps

    def names(self) -> Sequence[str]:
        return (f"{self.proxy.server.host}:{self.proxy.server.port}", self.world.catalog["database"])

    def inject(self, case: Case) -> None:
        when = _numbered(case.step, lasts=case.lasts)
        times = ALWAYS if case.lasts else 1
        match case.fault:
            case "refused":
                self.end = _refusing(self.proxy, when, None if case.lasts else AWAY)
            case "session ended":
                self.proxy.inject(StatementRule("call", when, call=self._end_sessions))
            case "slow":
                self.proxy.inject(StatementRule("slow", when, seconds=AWAY))
            case fault:
                self.proxy.inject(StatementRule("reset" if fault == "reset" else "lose_answer", when, times))

    def documented(self, step: str) -> str:
        verb = step.split(" ", maxsplit=1)[0]
        names = {CONNECT: "connect", "BEGIN": "begin", "COMMIT": "commit", "ROLLBACK": "commit"}
        return names.get(verb, "write" if verb in {"DELETE", "UPDATE", "INSERT", "COPY", "CREATE"} else "read")

    def _end_sessions(self) -> None:
        with self.server.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                (self.world.catalog["database"],),
            )

    def heal(self) -> None:
        self.end()
        self.end = lambda: None
        self.proxy.rules.clear()


def _numbered(step: str, *, lasts: bool) -> Callable[[Statement], bool]:
    """The statement of this number, or that one and all that follow, of any kind."""
    kind, _, number = step.partition(" (")
    seen = 0
    least = int(number.rstrip(")") or 1)

    def when(statement: Statement) -> bool:
        nonlocal seen
        if statement.kind == kind:
            seen += 1
            return seen == least or (lasts and seen > least)
        return lasts and seen >= least

    return when


def _refusing(proxy: PostgresProxy, when: Callable[[Statement], bool], seconds: float | None) -> Callable[[], None]:
    """Let the proxy go away at a statement, for so many seconds or until the returned function is called."""
    over, back = threading.Event(), threading.Event()
    begun = threading.Event()

    def away() -> None:
        with proxy.down():
            begun.set()
            over.wait(seconds)
        back.set()

    def begin() -> None:
        threading.Thread(target=away, daemon=True).start()
        assert begun.wait(10)

    rule = proxy.inject(StatementRule("call", when, call=begin))

    def end() -> None:
        over.set()
        if rule.times == 0:
            assert back.wait(60)

    return end
