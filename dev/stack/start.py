"""A stack is started, or what is missing of it, each component as soon as those that it needs answer."""

import time
from collections.abc import Callable, Iterable, Mapping

from dev.servers.process import listens
from dev.stack.components import WATCH, Component, components
from dev.stack.configs import write_configs
from dev.stack.site import Site, StackError
from dev.stack.supervised import Supervisor, end_leftovers

SECONDS = 180  # for all of it
_PAUSE = 0.3
_STARTED = "started"  # the file of the components that run


def bring_up(site: Site, names: Iterable[str], tell: Callable[[str], None], seconds: float = SECONDS) -> None:
    """Start what does not run yet, and wait until all of it answers.

    Args:
        site: of the stack.
        names: of the components; those that they need are started too. All if there are none.
        tell: called with a line for each thing that happens.
        seconds: to wait.

    Raises:
        StackError: a port is taken, or a component does not answer in time.
    """
    known = components(site)
    wanted = _with_needed(names, known)
    supervisor = Supervisor(site)
    running = started(site) if supervisor.is_up() else []
    (site.folder / _STARTED).write_text("\n".join(dict.fromkeys([*running, *wanted])), "utf-8")
    if not supervisor.is_up():
        supervisor.stop()  # it may be about to end
        if left := end_leftovers(site):
            tell(f"ended {len(left)} processes that a killed supervisor left behind")
        _check_ports(known)
        write_configs(site)
        supervisor.start([component.program() for component in known.values()])
    deadline = time.monotonic() + seconds
    up: set[str] = set()
    while waiting := [known[name] for name in wanted if name not in up]:
        for component in waiting:
            if up.issuperset(component.after):
                if supervisor.start_process(component.name):
                    tell(f"{component.name} starts")
                if component.answers():
                    component.prepare()
                    up.add(component.name)
                    tell(f"{component.name} answers  {component.address}")
        if time.monotonic() > deadline:
            raise StackError("\n".join(_late(waiting, up, supervisor)))
        time.sleep(_PAUSE)


def started(site: Site) -> list[str]:
    """The names of the components that the present supervisor, or a killed one, has to run."""
    return (site.folder / _STARTED).read_text("utf-8").split()


def _with_needed(names: Iterable[str], known: Mapping[str, Component]) -> list[str]:
    """The names with those that they need and the watch, in the order in which they start; all if there are none."""
    wanted: set[str] = set()
    todo = [*(list(names) or known), WATCH]
    while todo:
        name = todo.pop()
        if name not in known:
            raise StackError(f"the stack has no {name}: it has {', '.join(known)}")
        if name not in wanted:
            wanted.add(name)
            todo.extend(known[name].after)
    return [name for name in known if name in wanted]


def _check_ports(known: Mapping[str, Component]) -> None:
    taken = {port: component.name for component in known.values() for port in component.ports if listens(port)}
    if taken:
        named = ", ".join(f"{port} ({name})" for port, name in taken.items())
        raise StackError(
            f"other programs listen on ports of the stack: {named}. End them, or remove the folder and use --free-ports"
        )


def _late(waiting: Iterable[Component], up: set[str], supervisor: Supervisor) -> Iterable[str]:
    processes = supervisor.processes()
    for component in waiting:
        if missing := [name for name in component.after if name not in up]:
            yield f"{component.name} was not started, because {', '.join(missing)} does not answer"
            continue
        state = processes[component.name].state if component.name in processes else "unknown"
        log = supervisor.site.logs / f"{component.name}.log"
        end = log.read_text("utf-8", "replace")[-1000:] if log.exists() else ""
        yield f"{component.name} does not answer (its process is {state}); {log} ends with:\n{end}"
