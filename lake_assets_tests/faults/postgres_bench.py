"""Faults of the catalog's server."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from dev.servers.postgres import PostgresServer
from dev.servers.postgres_proxy import CONNECT, PostgresProxy, Statement
from dev.servers.postgres_proxy import Rule as StatementRule
from lake_assets_tests.faults.bench import ALWAYS, AWAY, Bench, Case
from lake_assets_tests.faults.operations import Operation
from lake_assets_tests.faults.template import Template
from lake_assets_tests.world import World
from lake_assets_tests.world_fixtures import database_on


class PostgresBench(Bench):
    """The catalog is behind the proxy; the lake, its landing zone and what is beside it are local folders."""

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
        world.catalog = database_on(proxy.server) | {"connect_timeout": 10}
        world.options = dict(operation.options)
        for name, value in operation.beside.items():
            world.options[name] = {"to": {"type": "local", "path": str(folder / name)}, **value}
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
        self.server.end_sessions(self.world.catalog["database"])

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
        assert begun.wait(60)

    rule = proxy.inject(StatementRule("call", when, call=begin))

    def end() -> None:
        over.set()
        if rule.times == 0:
            assert back.wait(60)

    return end
