"""The rooms are those of the architecture page, and each imports only rooms above it there, or a wing by its door."""

import ast
import functools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import lake_assets
from lake_assets.config.connections import StorageModel
from lake_assets.config.formats import FormatModel
from lake_assets.lake.catalog import spec

PACKAGE = Path(lake_assets.__file__).parent
PAGE = PACKAGE.parent / "docs" / "architecture.md"
LINE = re.compile(r"( +)([a-z_/]+(?:/|\.py)) {2}")
WINGS = "      — wings —\n"

# The files of the spine that import each wing.
DOORS = {
    "wings/land/": {"cli/land.py", "orchestration/stream_schedules.py"},
    "wings/launch/": {"cli/ingest.py", "orchestration/stream_run.py"},
    "wings/telemetry/": {"upkeep/exports.py"},
    "wings/importers/": {"cli/init.py", "streams/load.py"},
    "wings/templates/": {"cli/dagster.py", "cli/init.py"},
}


def listed(text: str) -> list[str]:
    """The rooms of a page in their order, as paths from the package on; a room that lists others has a slash."""
    rooms: list[str] = []
    parents: list[tuple[int, str]] = []
    for line in text[text.index("    lake_assets/\n") : text.index("A room imports")].splitlines()[1:]:
        if not (match := LINE.match(f"{line}  ")):
            continue
        indent, name = len(match[1]), match[2]
        parents = [(depth, parent) for depth, parent in parents if depth < indent]
        rooms.append("".join(parent for _, parent in parents) + name)
        if name.endswith("/"):
            parents.append((indent, name))
    return rooms


def files(package: Path) -> Mapping[str, Path]:
    """The modules of the package by their dotted names."""
    return {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(package.rglob("*.py"))
    }


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def importing(path: Path, *, on_import: bool) -> list[ast.AST]:
    """The nodes of a file that may import, anywhere in it, or only those that run when it is imported itself."""
    found: list[ast.AST] = []
    left: list[ast.AST] = [tree(path)]
    while left:
        for child in ast.iter_child_nodes(left.pop()):
            if isinstance(child, ast.Import | ast.ImportFrom | ast.Call):
                found.append(child)
            if not (on_import and _is_deferred(child)):
                left.append(child)
    return found


def _is_deferred(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")


def imports(name: str, path: Path, modules: Mapping[str, Path], *, on_import: bool = False) -> Iterator[str]:
    """The package's modules that one imports in any form, anywhere in it, or only when it is imported itself."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in importing(path, on_import=on_import):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in modules)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package.rsplit(".", level - 1)[0] if level else ""
                origin = ".".join(filter(None, [base, module]))
                for alias in names:
                    yield from [m for m in (f"{origin}.{alias.name}", origin) if m in modules][:1]
            case ast.Call(func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module")):
                texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                yield from (text for text in texts if text in modules)


def strings(path: Path) -> Iterator[str]:
    """The texts of a file that are no docstrings."""
    module = tree(path)
    docs = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def rank(path: Path, package: Path, rooms: list[str]) -> int | None:
    """The line of the page that a file belongs to: the longest that its path begins with."""
    name = str(path.relative_to(package))
    fitting = [room for room in rooms if name == room or (room.endswith("/") and name.startswith(room))]
    return rooms.index(max(fitting, key=len)) if fitting else None


def upward(package: Path, rooms: list[str], wings: Collection[str] = ()) -> list[tuple[str, str]]:
    """The imports of a room below the importing one on the page, but not those of a wing by the spine."""
    modules = files(package)
    ranks = {name: rank(path, package, rooms) for name, path in modules.items()}
    return [
        (name, other)
        for name, path in modules.items()
        for other in imports(name, path, modules)
        if (own := ranks[name]) is not None and (above := ranks[other]) is not None and above > own
        if rooms[own] in wings or rooms[above] not in wings
    ]


def doors(*, on_import: bool = False) -> dict[str, set[str]]:
    """The files of the spine that import each wing."""
    text = PAGE.read_text()
    rooms, modules = listed(text), files(PACKAGE)
    wings = listed(f"    lake_assets/\n{text[text.index(WINGS) :]}")
    found: dict[str, set[str]] = {wing: set() for wing in wings}
    for name, path in modules.items():
        if (own := rank(path, PACKAGE, rooms)) is not None and rooms[own] not in wings:
            for other in imports(name, path, modules, on_import=on_import):
                other_rank = rank(modules[other], PACKAGE, rooms)
                if other_rank is not None and rooms[other_rank] in wings:
                    found[rooms[other_rank]].add(str(path.relative_to(PACKAGE)))
    return found


def test_the_page_names_every_room() -> None:
    rooms = listed(PAGE.read_text())
    assert [room for room in rooms if not (PACKAGE / room).exists()] == []
    loose = {path for path in PACKAGE.rglob("*.py") if rank(path, PACKAGE, rooms) is None}
    # The package's face imports from everywhere, when it is asked for a name.
    assert loose == {PACKAGE / "__init__.py", PACKAGE / "wings/__init__.py"}


def test_the_package_has_at_most_twelve_rooms() -> None:
    assert len([path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()]) <= 12


def test_no_two_files_have_one_name() -> None:
    names = Counter(path.name for path in PACKAGE.rglob("*.py") if not path.name.startswith("__"))
    assert [name for name, number in names.items() if number > 1] == []


def test_no_two_rooms_have_a_public_name_in_common() -> None:
    """A command is a function of the name of what it does; `main` is what a process begins with."""
    kinds = (ast.ClassDef, ast.FunctionDef)
    named = [
        (node.name, str(path.relative_to(PACKAGE)))
        for path in PACKAGE.rglob("*.py")
        for node in tree(path).body
        if isinstance(node, kinds) and not node.name.startswith("_") and node.name != "main"
        if isinstance(node, ast.ClassDef) or path.parent.name != "cli"
    ]
    numbers = Counter(name for name, _ in named)
    assert sorted(pair for pair in named if numbers[pair[0]] > 1) == []


def test_a_room_imports_only_rooms_above_it() -> None:
    assert upward(PACKAGE, listed(PAGE.read_text()), DOORS) == []


def test_the_spine_imports_a_wing_only_by_its_doors() -> None:
    assert doors() == DOORS


def test_the_spine_imports_a_wing_only_inside_functions() -> None:
    assert doors(on_import=True) == {wing: set() for wing in DOORS}


def test_of_the_tasks_only_what_decrypts_imports_duckdb() -> None:
    """Workers of a cluster may lack it."""
    modules = files(PACKAGE)
    tasks = {name for name in modules if name.startswith("lake_assets.spark.task")}
    left, reached = [*tasks - {"lake_assets.spark.task.decryption"}], set[str]()
    while left:
        if (name := left.pop()) not in reached:
            reached.add(name)
            left += imports(name, modules[name], modules, on_import=True)
    assert len(reached) > len(tasks)
    engine = re.compile(r"^(?:from|import) (?:duckdb|pyspark)\b", re.MULTILINE)
    assert [name for name in reached if engine.search(modules[name].read_text())] == []


def test_no_files_import_each_other_in_a_circle() -> None:
    modules = files(PACKAGE)
    graph = {name: set(imports(name, path, modules)) - {name} for name, path in modules.items()}
    assert sum(map(len, graph.values())) > 1000
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_ducklakes_tables_are_named_in_the_catalogs_room_alone() -> None:
    tables = {name for name in vars(spec).values() if isinstance(name, str) and name.startswith("ducklake_")}
    assert len(tables) == 21
    names = re.compile(rf"\b(?:(?:{'|'.join(tables)})\b|ducklake_inlined_|__ducklake_)(?! *\()")
    named = {
        str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") for text in strings(path) if names.search(text)
    }
    assert named == {"lake/catalog/spec.py"}


def test_nobody_but_the_room_of_backends_asks_for_the_type_of_a_catalog() -> None:
    asks = re.compile(r"isinstance\([^()]*\w+Catalog\b|case \w+Catalog\(|catalog\.type [!=]=|type\(\w*\.?catalog\)")
    asking = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if asks.search(path.read_text())}
    assert asking == {"lake/backends/__init__.py"}


def test_no_statement_spells_the_alias_of_a_lake() -> None:
    assert [str(path) for path in PACKAGE.rglob("*.py") if "'lake'" in path.read_text()] == []


def test_only_the_classes_of_storages_know_of_which_type_one_is() -> None:
    kinds = {kind.__name__ for kind in subclasses(StorageModel)}
    assert kinds >= {"LocalStorage", "S3Storage", "R2Storage", "GcsStorage", "AzureStorage", "WebStorage"}
    asks = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if kinds & set(asked_types(tree(path)))}
    assert asks <= {"config/storages.py", "config/connections.py"}


def test_only_the_room_of_formats_knows_of_which_format_an_object_is() -> None:
    kinds = {kind.__name__ for kind in subclasses(FormatModel)}
    assert kinds >= {"ParquetFormat", "OrcFormat", "AvroFormat", "CsvFormat", "JsonFormat", "AutoFormat", "TextFormat"}
    of_type = re.compile(r"\bform(at)?\.type ([=!]=|in) ")
    asks = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if kinds & set(asked_types(tree(path))) or of_type.search(path.read_text())
    }
    assert {name for name in asks if not name.startswith("storage/formats/")} == set()


def test_what_another_room_calls_takes_four_parameters_at_most() -> None:
    """A value object carries more. The options that a user names are excepted: of commands, and of the API."""
    wide = [name for name, function in called_from_elsewhere() if not is_command(function) and width(function) > 4]
    assert [name for name in wide if not name.startswith("lake_assets.api.")] == []


def called_from_elsewhere() -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions that another room imports, and the methods of a name that another room calls, also a class."""
    modules = files(PACKAGE)
    room = {name: f"{name}.".split(".")[1] for name in modules}
    used: dict[str, set[str]] = {of: set() for of in room.values()}
    for name, path in modules.items():
        used[room[name]].update(uses(path))
    for name, path in modules.items():
        elsewhere = set().union(*(names for of, names in used.items() if of != room[name]))
        for node in tree(path).body:
            if isinstance(node, ast.FunctionDef) and f"{name}.{node.name}" in elsewhere:
                yield f"{name}.{node.name}", node
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                for method in node.body:
                    of_class = f"{name}.{node.name}" if getattr(method, "name", "") == "__init__" else None
                    if isinstance(method, ast.FunctionDef) and (of_class or f".{method.name}") in elsewhere:
                        yield f"{name}.{node.name}.{method.name}", method


def uses(path: Path) -> Iterator[str]:
    """What a file imports, and what it uses of a module that it imports, by dotted names; the names of attributes."""
    nodes = list(ast.walk(tree(path)))
    imports = [(node.module, alias) for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
    imported = {alias.asname or alias.name: f"{module}.{alias.name}" for module, alias in imports}
    yield from (f"{module}.{alias.name}" for module, alias in imports)
    for node in nodes:
        if isinstance(node, ast.Attribute):
            yield f".{node.attr}"
            if isinstance(node.value, ast.Name) and node.value.id in imported:
                yield f"{imported[node.value.id]}.{node.attr}"


def is_command(function: ast.FunctionDef) -> bool:
    calls = [decorator.func for decorator in function.decorator_list if isinstance(decorator, ast.Call)]
    return any(isinstance(call, ast.Attribute) and call.attr in ("command", "group") for call in calls)


def width(function: ast.FunctionDef) -> int:
    """The number of parameters, without the object of a method."""
    given = function.args
    names = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, [given.vararg, given.kwarg])]
    return sum(name.arg not in ("self", "cls") for name in names)


def asked_types(module: ast.Module) -> Iterator[str]:
    """The names of the classes that `isinstance` and `match` ask for."""
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, asked]) | ast.MatchClass(cls=asked):
                yield from (name.id for name in ast.walk(asked) if isinstance(name, ast.Name))


def subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(subclasses, kind.__subclasses__()))
