"""Every fix that a sentence of an error or a warning names has a case that does it, or a reason why none can.

A sentence names several fixes, as in *correct the value, or declare another type*. A case counts for those whose words
it yields. Words that several files say are of the file that the case names before them: `register.py: run it again`.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

from lake_assets_tests.test_rooms import PACKAGE

HERE = Path(__file__).parent
UNTRIED = HERE / "untried.txt"
LEAST, ENOUGH = 8, 20  # letters of a part by which one knows its fix; and of words that are enough of a long one
VALUE = "…"
OTHERS = {"VendorText": (4, "advice"), "Finding": (3, "hint")}  # with a fix, and its place and name
BEGIN = re.compile(
    r"(?:nothing was changed\. )?"
    r"(?!(?:a|an|did|each|if|it|its|most|nothing|often|or|sessions|the|their|there)\b)([a-z]+)\b",
    re.IGNORECASE,
)
"""The verb with which a sentence begins."""

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
            yield from map("".join, product(*(list(texts(part, module, seen)) or [VALUE] for part in parts)))
        case ast.FormattedValue(value=ast.IfExp() | ast.Call() | ast.Name() as shown):
            if not isinstance(shown, ast.Name) or shown.id.isupper():
                yield from (text for text in texts(shown, module, seen) if text.count(" ") > 1)
        case ast.Call(func=ast.Attribute(attr="get"), args=[_, other]):
            yield from texts(other, module, seen)
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
    """Return the names of the classes of errors, of a variable for one of several, and of the end of a driver."""
    classes = [n for module in trees(PACKAGE).values() for n in ast.walk(module) if isinstance(n, ast.ClassDef)]
    ours = {n.name for n in trees(PACKAGE)[PACKAGE / "base/errors.py"].body if isinstance(n, ast.ClassDef)}
    of_rooms = {n.name for n in classes if any(isinstance(base, ast.Name) and base.id in ours for base in n.bases)}
    return ours | of_rooms | {"kind", "Ended"}


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
    if called(call) in {*OTHERS, *errors()}:
        place, name = OTHERS.get(called(call), (1, "hint"))
    yield from call.args[place : place + 1]
    yield from (keyword.value for keyword in call.keywords if keyword.arg == name)
    if called(call) == "warning":
        yield from (value for value in call.args[1:] if isinstance(value, ast.Call))


def sentences() -> set[str]:
    """The sentences that errors are raised with, or that belong to texts of vendors, as their fix."""
    return {sentence for sentence, _ in places()}


def places() -> Iterator[tuple[str, str]]:
    """Yield each sentence with the file, without `.py`, in which it is given to an error, a finding or a warning."""
    for path, module in trees(PACKAGE).items():
        for call in (node for node in ast.walk(module) if isinstance(node, ast.Call)):
            for text in (text for fix in fixes(call, module) for text in texts(fix, module)):
                if any(words_of(text)):
                    yield text, path.stem


def words_of(text: str) -> list[str]:
    """The parts of a text between its values that are long enough to know it by."""
    return [part.strip(" .:,;") for part in re.split(VALUE, text) if len(part.strip()) >= LEAST]


@cache
def between_fixes() -> re.Pattern[str]:
    """What is between two fixes: an `or` behind a comma, or a verb behind an `or`, a comma or the like."""
    firsts = {match[1].lower() for text in sentences() if (match := BEGIN.match(text))}
    return re.compile(rf"(?:[,;.]? or |[,;.] )(?:else )?(?=(?:{'|'.join(sorted(firsts))})\b)|[,;.] or ", re.IGNORECASE)


def fixes_of(sentence: str) -> list[str]:
    """The fixes that a sentence names; words before the first one, as in *its columns are a; write b*, are none."""
    first, *others = between_fixes().split(sentence)
    is_first = not others or first.startswith(VALUE) or between_fixes().match(f", {first}")
    return [fix for fix in (first, *others) if words_of(fix) and (fix is not first or is_first)]


def cases() -> Iterator[tuple[str, str]]:
    """Yield the words of fixes that the cases of this folder yield, with the file that is named or an empty text."""
    files = [path for path in HERE.glob("test_*.py") if path != Path(__file__)]
    yields = [node.value for path in files for node in ast.walk(trees(HERE)[path]) if isinstance(node, ast.Yield)]
    advice = [value.elts[-1] if isinstance(value, ast.Tuple) else value for value in yields]
    for words in (each for node in advice if isinstance(node, ast.Constant) for each in str(node.value).split(" | ")):
        file, _, rest = words.rpartition(".py: ")
        yield rest.strip(" .:,;").lower(), file


def says(fix: str, words: str) -> bool:
    """Whether words of a case are a long part of a fix, or most of one."""
    return any(words in part and len(words) >= min(len(part) / 2, ENOUGH) for part in words_of(fix))


def test_each_fix_that_a_sentence_names_has_a_case_or_a_reason_for_none() -> None:
    files: dict[str, set[str]] = {}
    for sentence, file in places():
        for fix in fixes_of(sentence):
            files.setdefault(fix.strip(".,").lower(), set()).add(file)
    needed = {
        f"{file}.py: {fix}" if len(of_fix) > 1 and sum(map(len, words_of(fix))) < ENOUGH else fix
        for fix, of_fix in files.items()
        for file in of_fix
    }
    for words, file in cases():
        said = [fix for fix in files if says(fix, words)]
        for fix in said if len(said) == 1 else (fix for fix in said if words in words_of(fix)):  # others only begin so
            needed -= {fix, f"{file}.py: {fix}"}

    untried = dict(line.split(" | ", 1) for line in UNTRIED.read_text("utf-8").splitlines())
    assert needed - untried.keys() == set(), (
        "write a case that does what it says, or the reason for none in untried.txt"
    )
    assert untried.keys() - needed == set(), "these have a case, or no error says them any more"
