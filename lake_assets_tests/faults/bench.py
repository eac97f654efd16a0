"""Faults at every step of an act: a proxy before S3 or PostgreSQL fails one request or statement, or all of a step.

The steps of an act are recorded once, without a fault. A case is a step and a fault. A fault is short, and then the
next request or statement of that step is the only one that it hits; or it lasts, until the act has failed. Then the
faults are over, and the act is repeated.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dev.servers.postgres_proxy import CONNECT, PostgresProxy, Statement
from dev.servers.postgres_proxy import Rule as StatementRule
from dev.servers.proxy import Request, S3Proxy
from dev.servers.proxy import Rule as RequestRule
from lake_assets_tests.faults.actors import Actors
from lake_assets_tests.faults.outage import Outage
from lake_assets_tests.faults.scenarios import begin, check, finish, next_round
from lake_assets_tests.world import World
from lake_assets_tests.world_fixtures import bucket_on, database_on

ALWAYS = 10**6  # times that a lasting fault happens
AWAY = 0.2  # seconds of a short outage
# A storage that may be away for five seconds, and one that is given up at once, or when it has not answered.
PATIENT = {"retries": 100, "first_wait": 0.05}
IMPATIENT = {"retries": 0}
HURRIED = IMPATIENT | {"timeout": 3}


@dataclass(frozen=True)
class Case:
    """A fault at a step of an act."""

    step: str
    fault: str
    lasts: bool


class Bench(ABC):
    """The scenario of a kind of act, on a server whose answers can fail."""

    section = ""  # of docs/faults.md
    faults: Sequence[str] = ()
    lasting: Sequence[str] = ()

    def __init__(self, kind: str, world: World, actors: Actors) -> None:
        self.kind, self.world, self.actors = kind, world, actors
        self.hurried = world  # while a fault lasts
        self.end: Callable[[], None] = lambda: None  # of the outage of the present case
        self.scenario = begin(world, actors, kind)
        begun = next_round(self.scenario, kind)
        self.proxy.forget()
        self.scenario.do(begun.act, **begun.options)
        self.steps = self.recorded()
        finish(self.scenario, begun)

    @property
    @abstractmethod
    def proxy(self) -> S3Proxy | PostgresProxy:
        """Is before the server."""

    @abstractmethod
    def recorded(self) -> list[str]:
        """The steps that the proxy has seen, each once, in order."""

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

    def is_possible(self, step: str, fault: str) -> bool:  # noqa: ARG002
        """Whether a step can have this fault."""
        return True

    def faults_at(self, number: int, *, lasts: bool) -> Sequence[str]:  # noqa: ARG002 - all at each step, by default
        """The faults at the step of this number."""
        return self.lasting if lasts else self.faults

    def cases(self) -> list[Case]:
        """The faults at each step: short ones, and ones that last."""
        return [
            Case(step, fault, lasts)
            for number, step in enumerate(self.steps)
            for lasts in (False, True)
            for fault in self.faults_at(number, lasts=lasts)
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

    def run(self, case: Case) -> str | None:
        """Act under the fault of the case, and again without it; returns the first error, or None.

        Raises:
            AssertionError: something is wrong after the fault, or after the second act.
        """
        begun = next_round(self.scenario, self.kind)
        self.inject(case)
        try:
            ended = self.actors.run(self.hurried if case.lasts else self.world, begun.act, **begun.options)
        finally:
            self.heal()
        if ended.refused is not None:
            assert "Traceback" not in ended.refused
            assert any(name in ended.refused for name in self.names()), f"the error names nothing: {ended.refused}"
        check(self.scenario, begun, ended)
        return ended.refused


class S3Bench(Bench):
    """The lake, its landing zone and what is beside it are in buckets behind the proxy; the catalog is SQLite."""

    section = "The storage"
    faults = ("refused", "reset", "503", "slow", "truncated", "answer lost", "answer broken")
    lasting = ("refused", "reset", "503", "truncated", "answer lost", "hung")

    def __init__(self, kind: str, world: World, actors: Actors, proxy: S3Proxy) -> None:
        self._proxy = proxy
        world.storage, world.source = ({**bucket_on(proxy.s3), "requests": PATIENT} for _ in range(2))
        super().__init__(kind, world, actors)

    @property
    def proxy(self) -> S3Proxy:
        return self._proxy

    def recorded(self) -> list[str]:
        return list(dict.fromkeys(self.step_of(request) for request in self.proxy.requests()))

    def names(self) -> Sequence[str]:
        return self.proxy.s3.endpoint, self.world.storage["bucket"], self.world.source["bucket"]

    def documented(self, step: str) -> str:
        return step

    def is_possible(self, step: str, fault: str) -> bool:
        if step.startswith("copy"):
            return fault != "hung"  # a copy by the store may take ten minutes
        return fault not in {"truncated", "answer broken"} or not step.startswith("look at")  # which has no body

    def step_of(self, request: Request) -> str:
        """What the request is for."""
        if request.key.endswith("_latest.json"):
            return "write _latest.json"
        what = "data file" if request.bucket == self.world.storage["bucket"] else "landed object"
        if not request.key:
            return f"delete a {what}" if "delete" in request.query else f"list the {what}s"
        kinds = {"deltas/": "exported file", "/_dead_letters/": "dead letter"}
        what = next((kind for part, kind in kinds.items() if part in request.key), what)
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

    def _hurried(self, requests: dict[str, Any]) -> World:
        world, hurry = self.world, {"requests": requests}
        options = dict(world.options)
        if "deltas" in options:
            options["deltas"] = options["deltas"] | {"to": options["deltas"]["to"] | hurry}
        return replace(world, storage=world.storage | hurry, source=world.source | hurry, options=options, _opened=None)

    def heal(self) -> None:
        self.end()
        self.end = lambda: None
        self.proxy.heal()


class PostgresBench(Bench):
    """The catalog is behind the proxy; the lake, its landing zone and what is beside it are local folders."""

    section = "The catalog's server"
    faults = ("refused", "reset", "slow", "answer lost", "session ended")
    lasting = ("refused", "reset", "answer lost")

    def __init__(self, kind: str, world: World, actors: Actors, proxy: PostgresProxy) -> None:
        self._proxy = proxy
        world.catalog = database_on(proxy.server) | {"connect_timeout": 10}
        super().__init__(kind, world, actors)

    @property
    def proxy(self) -> PostgresProxy:
        return self._proxy

    def faults_at(self, number: int, *, lasts: bool) -> Sequence[str]:
        """The two that say whether the server has done what was asked, and by turns one of the others."""
        if lasts:
            return (self.lasting[number % len(self.lasting)],)
        others = [fault for fault in self.faults if fault not in {"reset", "answer lost"}]
        return ("reset", "answer lost", others[number % len(others)])

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
        match case.fault:
            case "refused":
                outage = Outage(self.proxy, lambda _: True, 600 if case.lasts else AWAY)
                self.end = outage.end
                self.proxy.inject(StatementRule("call", when, call=outage.begin))
            case "session ended":
                self.proxy.inject(StatementRule("call", when, call=self._end_sessions))
            case "slow":
                self.proxy.inject(StatementRule("slow", when, seconds=AWAY))
            case fault:
                times = ALWAYS if case.lasts else 1
                self.proxy.inject(StatementRule("reset" if fault == "reset" else "lose_answer", when, times))

    def documented(self, step: str) -> str:
        verb = step.split(" ", maxsplit=1)[0]
        names = {CONNECT: "connect", "BEGIN": "begin", "COMMIT": "commit", "ROLLBACK": "commit"}
        return names.get(verb, "write" if verb in {"DELETE", "UPDATE", "INSERT", "COPY", "CREATE"} else "read")

    def _end_sessions(self) -> None:
        self.proxy.upstream.end_sessions(self.world.catalog["database"])

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
