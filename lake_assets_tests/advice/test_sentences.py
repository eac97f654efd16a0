"""Every sentence of an error that says what to do has a case that does it, or a reason why none can."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lake_assets_tests.test_rooms import PACKAGE

HERE = Path(__file__).parent
UNTRIED = HERE / "untried.txt"
LEAST, ENOUGH = 8, 20  # letters of a part by which one knows its sentence; and of words that are enough of a long one
VALUE = "…"

Trees = dict[Path, ast.Module]


@cache
def trees(folder: Path) -> Trees:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))}


def texts(node: ast.expr, module: ast.Module, seen: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the texts that an expression can be, with `…` for values; names, tables and functions are looked up."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else VALUE for part in parts)
        case ast.BinOp(left=left, right=right):
            ends = list(texts(right, module, seen)) or [VALUE]
            yield from (begin + end for begin in list(texts(left, module, seen)) or [VALUE] for end in ends)
        case ast.IfExp(body=one, orelse=other):
            yield from texts(one, module, seen)
            yield from texts(other, module, seen)
        case ast.Subscript(value=table):
            yield from texts(table, module, seen)
        case ast.BoolOp(values=values) | ast.Dict(values=values):
            for value in values:
                yield from texts(value, module, seen)
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            if name not in seen:
                yield from defined(name, module, (*seen, name))


def defined(name: str, module: ast.Module, seen: tuple[str, ...]) -> Iterator[str]:
    """Yield the texts that a name is given in its module, or else in another's body, and those of a function."""
    for tree in (module, *trees(PACKAGE).values()):
        if values := definitions(tree, of_body=tree is not module).get(name):
            for value in values:
                yield from texts(value, tree, seen)
            return


@cache
def definitions(module: ast.Module, *, of_body: bool) -> dict[str, list[ast.expr]]:
    """Return what each name is given, and what functions return; names within functions only if not `of_body`."""
    values: dict[str, list[ast.expr]] = {}
    for node in ast.walk(module):
        match node:
            case ast.Assign() | ast.AnnAssign() if of_body and node not in module.body:
                continue
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(ast.Name(id=name), value=value):
                values.setdefault(name, []).extend(filter(None, [value]))
            case ast.FunctionDef(name=name):
                returned = (n.value for n in ast.walk(node) if isinstance(n, ast.Return))
                values.setdefault(name, []).extend(filter(None, returned))
    return values


@cache
def errors() -> set[str]:
    """Return the names of the classes of errors, and of a variable for one of several."""
    classes = [n for module in trees(PACKAGE).values() for n in ast.walk(module) if isinstance(n, ast.ClassDef)]
    ours = {n.name for n in trees(PACKAGE)[PACKAGE / "errors.py"].body if isinstance(n, ast.ClassDef)}
    of_rooms = {n.name for n in classes if any(isinstance(base, ast.Name) and base.id in ours for base in n.bases)}
    return ours | of_rooms | {"kind"}


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


@cache
def takers(module: ast.Module) -> dict[str, tuple[int, str]]:
    """The functions that give a parameter to an error as its fix: the parameter's place and name."""
    found: dict[str, tuple[int, str]] = {}
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef):
            names = [argument.arg for argument in function.args.args if argument.arg != "self"]
            calls = [call for call in ast.walk(function) if isinstance(call, ast.Call) and called(call) in errors()]
            for fix in (call.args[1] for call in calls if len(call.args) > 1):
                match fix:
                    case (
                        ast.Name(id=name)
                        | ast.JoinedStr(values=[ast.FormattedValue(value=ast.Name(id=name)), ast.Constant(value=".")])
                    ) if name in names:
                        found[function.name] = names.index(name), name
    return found


def fixes(call: ast.Call, module: ast.Module) -> Iterator[ast.expr]:
    """Yield what a call gives to an error as its fix, itself or by a function of its module, or to a vendor's text."""
    place, name = takers(module).get(called(call), (len(call.args), ""))
    if called(call) in {"Text", *errors()}:
        place, name = (4, "advice") if called(call) == "Text" else (1, "hint")
    yield from call.args[place : place + 1]
    yield from (keyword.value for keyword in call.keywords if keyword.arg == name)


def sentences() -> dict[str, str]:
    """The sentences that errors are raised with, or that belong to texts of vendors, as their fix; each with a file."""
    advice: dict[str, str] = {}
    for path, module in trees(PACKAGE).items():
        for call in (node for node in ast.walk(module) if isinstance(node, ast.Call)):
            for text in (text for fix in fixes(call, module) for text in texts(fix, module)):
                if words_of(text):
                    advice.setdefault(text, path.relative_to(PACKAGE).as_posix())
    return advice


def words_of(sentence: str) -> list[str]:
    """The parts of a sentence between its values that are long enough to know it by."""
    return [part for part in re.split(VALUE, sentence) if len(part.strip()) >= LEAST]


def cases() -> set[str]:
    """The words of advice that the cases of this folder yield."""
    files = [path for path in HERE.glob("test_*.py") if path != Path(__file__)]
    yields = [node.value for path in files for node in ast.walk(trees(HERE)[path]) if isinstance(node, ast.Yield)]
    advice = [value.elts[-1] if isinstance(value, ast.Tuple) else value for value in yields]
    return {str(node.value) for node in advice if isinstance(node, ast.Constant)}


def is_tried(sentence: str, words: str) -> bool:
    """Whether the words of a case are a long part of a sentence, most of one, or more than one."""
    for part in words_of(sentence):
        if words in part and len(words) >= min(len(part) / 2, ENOUGH):
            return True
        if len(part) > ENOUGH and part.strip(" .:,") in words:
            return True
    return False


def test_each_sentence_that_tells_what_to_do_has_a_case_or_a_reason_for_none() -> None:
    tried = cases()
    assert tried
    untried = dict(line.split(" | ", 1) for line in UNTRIED.read_text("utf-8").splitlines())
    have_case = {sentence for sentence in sentences() if any(is_tried(sentence, words) for words in tried)}

    missing = {sentence: file for sentence, file in sentences().items() if sentence not in have_case | untried.keys()}
    assert missing == {}, "write a case that does what it says, or a line in untried.txt with the reason"
    assert untried.keys() - sentences().keys() == set(), "no error says this any more"
    assert untried.keys() & have_case == set(), "these have a case"
