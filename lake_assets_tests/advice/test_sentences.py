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


def sentences() -> dict[str, str]:
    """The sentences that errors are raised with, or that belong to texts of vendors, as their fix; each with a file."""
    classes = [n for module in trees(PACKAGE).values() for n in ast.walk(module) if isinstance(n, ast.ClassDef)]
    ours = {n.name for n in trees(PACKAGE)[PACKAGE / "errors.py"].body if isinstance(n, ast.ClassDef)}
    of_rooms = {n.name for n in classes if any(isinstance(base, ast.Name) and base.id in ours for base in n.bases)}
    errors = ours | of_rooms | {"kind"}  # the name of a variable for one of several
    advice: dict[str, str] = {}
    for path, module in trees(PACKAGE).items():
        for node in ast.walk(module):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                hints = node.args[1:2] if name in errors else []
                if name == "Text":  # of a vendor
                    hints = [*node.args[4:], *(key.value for key in node.keywords if key.arg == "advice")]
                for hint in hints:
                    for text in filter(words_of, texts(hint, module)):
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
