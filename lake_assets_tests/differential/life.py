"""A random table's life: files land, change and go, and runs commit them. A model knows each partition's files."""

import random
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as t

from dev.plain_client import plain_client
from lake_assets.base.errors import SchemaError, SourceError
from lake_assets.config.layout.hive import HIVE_NULL
from lake_assets.ingest.ingest_all import ingest_all
from lake_assets.ingest.outcome import IngestOptions
from lake_assets.lake.commit.extension import register_by_extension, replace_by_extension
from lake_assets_tests.differential.annotators import FORMATS, annotated_types, annotators_of, ends, table_of_old_days
from lake_assets_tests.differential.landed import File, Landed
from lake_assets_tests.differential.writers import WRITERS, can_write
from lake_assets_tests.faults.without_spark import jobs_here, no_session
from lake_assets_tests.values.columns import CHAINS, LEAVES, Values
from lake_assets_tests.world import World

REGIONS = ("NW", "SW", None, "a b", "a/b=c", "é%20", "O'Hare", "a+b;(1)", "10", "9", "~", "x" * 80)
NUMBERS = (7, 0, -1, None, 10, 2**63 - 1, -(2**63), 9)
DATES = ("2026-02-11", "2026-02-12", None, "1999-12-31", "0001-01-01", "9999-12-31", "2026-10-01")
PARTITIONS: Mapping[str, tuple[dict[str, Any], Sequence[str | int | None]]] = {
    "region": ({}, REGIONS),
    "date": ({"type": "date", "start": "0001-01-01"}, DATES),
    "n": ({"type": "integer"}, NUMBERS),
}
# Of five seeds each one has other files, so that a few seeds have all: its modes, and what its files are beside plain.
LIVES: Sequence[tuple[Sequence[str], Sequence[str]]] = (
    (("replace", "replace", "append", "index"), ()),
    (("index", "index", "replace"), ("annotated",)),
    (("replace", "append"), ("avro", "legacy")),
    (("replace", "append"), ("orc", "avro", "annotated")),
    (("replace", "append"), ("legacy", "annotated")),
)
SYMBOLS = ("b", "a", "c_1")
NOT_IN_PLACE = ("by the old calendar", "no converted one", "converted type (20)")  # what DuckLake does not read
CLIENT = {"region": "client", "date": "2026-03-03", "n": "5"}  # a partition of a plain client


@dataclass(frozen=True)
class Column:
    """A column of the landed files.

    Attributes:
        name: in the files and in the table.
        kind: of the first file; a later one has one of `chain`.
        chain: types of the same family.
        is_null_first: all its rows of the first commit are NULL.
        is_single: its floating-point values are those of single precision.
        is_late: the first file lacks it.
        values: its values, if these are few.
    """

    name: str
    kind: pa.DataType
    chain: Sequence[pa.DataType]
    is_null_first: bool
    is_single: bool
    is_late: bool
    values: Sequence[Any] = ()


class Life(Landed):
    """One table.

    Attributes:
        seed: all of it follows from the seed.
        landed: the files that each partition has in the landing zone.
        refused: the errors of runs that refused files.
        annotators: what gives some files annotations that Arrow does not write, or another format.
        formats: those of them that are formats.
        wrong: what a run refused, though it takes the same rows without annotations.
    """

    def __init__(self, seed: int, folder: Path, catalog: dict[str, Any]) -> None:
        self.seed, self.catalog = seed, catalog
        self.landed: dict[str, dict[str, File]] = {}
        self.refused: list[str] = []
        self.wrong: list[str] = []
        self.commits = 0
        chosen = random.Random(seed)
        modes, self.annotators = LIVES[seed % len(LIVES)]
        self.mode = chosen.choice(modes)
        kinds = ["direct", "extension"] if self.mode == "index" else ["direct", "direct", "extension", "insert"]
        self.strategy = chosen.choice(kinds)
        self.policy = chosen.choice(["strict", "evolve"]) if self.mode != "index" else "strict"
        self.copy = chosen.choice(["auto", "always", "always", "any", "never"])
        writers = list(WRITERS)
        self.writers = chosen.choice([writers, *([writer] for writer in writers)])
        self.formats = [form for form in self.annotators if form in FORMATS]
        names = chosen.choice([["region"], ["n"], ["region", "date"], ["date"], ["n", "region"]])
        partitions = {name: PARTITIONS[name][0] for name in names}
        options: dict[str, Any] = {"mode": self.mode, "partitions": partitions}
        if self.mode != "index":
            options |= {"schema_policy": self.policy, "copy": self.copy}
            if self.formats:
                options["format"] = "auto"
                del options["copy"]
        if self.mode == "replace":
            options["on_empty"] = "clear"
        world = World(
            catalog,
            {"type": "local", "path": str(folder / "data")},
            {"type": "local", "path": str(folder / "landing")},
            no_session,
            options,
            {"attach_options": {"encrypted": True}} if self.strategy == "insert" else {},
        )
        super().__init__(world, folder, chosen, partitions)
        texts = [self._text(names) for _ in range(chosen.choice([2, 3, 4]))]
        self.texts = list(dict.fromkeys(texts))
        (self.folder / "kept").mkdir(parents=True)
        self.may_narrow = self.mode == "index" or self.policy == "evolve"  # files keep narrower types than the table's
        count = chosen.choice([0, 0, 1] if self.annotators else [1, 2, 4, 6])
        self.columns = [self._column(f"c{number}") for number in range(count)]
        if self.annotators:
            self.columns += self._annotated_columns()
        self.singles = {column.name for column in self.columns if column.is_single}
        self._files = self._rows = 0

    @property
    def title(self) -> str:
        """What was chosen."""
        copied = "" if self.mode == "index" else f", copy {self.copy}, {self.policy}"
        writers = "+".join((*self.writers, *self.annotators))
        return f"seed {self.seed}: {self.mode} by {self.strategy} on {self.catalog['type']}{copied}, {writers}"

    def _text(self, names: Sequence[str]) -> str:
        parts = []
        for name in names:
            value = self.chosen.choice(PARTITIONS[name][1])
            text = HIVE_NULL if value is None else str(value).replace("%", "%25").replace(",", "%2C")
            parts.append(f"{name}={text}")
        return ",".join(parts)

    def _annotated_columns(self) -> Iterator[Column]:
        """Columns that files with annotations have."""
        kinds = {"day": pa.date32(), "symbol": pa.string()} | annotated_types(self.chosen, self.formats)
        for name, kind in kinds.items():
            values = SYMBOLS if name == "symbol" else ends(kind) if t.is_unsigned_integer(kind) else ()
            if all(can_write(writer, kind) for writer in self.writers):
                yield Column(name, kind, (kind,), False, False, False, values)

    def _column(self, name: str) -> Column:
        chosen = self.chosen
        leaves = [kind for kind in LEAVES if all(can_write(writer, kind) for writer in self.writers)]
        for form in self.formats:
            leaves = [kind for kind in leaves if str(kind) in FORMATS[form][1]]
        while True:
            kind = random_kind(chosen, leaves, 2 if self.formats else 0)
            if all(can_write(writer, kind) for writer in self.writers):
                break
        chain = chain_of(kind)
        return Column(
            chosen.choice([name, name, name, *([] if self.formats else [f"{name} ü", f'{name}.a"b'])]),
            kind,
            chain if self.policy == "evolve" else chain[: list(chain).index(kind) + 1],
            chosen.random() < 0.35,
            self.may_narrow and len(chain) > 1,
            self.policy == "evolve" and chosen.random() < 0.15,
        )

    # Files.

    def _table(self) -> pa.Table:
        """The rows of a new file."""
        chosen = self.chosen
        size = chosen.choice([0, 1, 2, 5, 20, 60]) if self.commits else chosen.choice([1, 2, 5, 20, 60])
        columns: dict[str, pa.Array] = {"id": pa.array(range(self._rows, self._rows + size), pa.int64())}
        self._rows += size
        for column in self.columns:
            if (column.is_late and not self.commits) or (self.policy == "evolve" and chosen.random() < 0.1):
                continue
            kind = chosen.choice(column.chain) if self.commits and chosen.random() < 0.3 else column.kind
            share = 1.0 if column.is_null_first and not self.commits else chosen.choice([0, 0, 0.2, 0.8, 1])
            values = Values(
                chosen, self.mode != "index", is_single=column.is_single, extremes=chosen.choice([0, 0.1, 0.5])
            )
            array = values.array(kind, size, share)
            if column.values:
                few = [chosen.choice(column.values) if there.as_py() else None for there in array.is_valid()]
                array = pa.array(few, kind)
            half = size // 2
            if half and chosen.random() < 0.2:  # so row groups have no values
                array = pa.concat_arrays([pa.nulls(half, array.type), array[half:]])
            columns[column.name] = array
        return pa.table(columns)

    def _write(self, name: str, columns: Collection[str] | None = None) -> File:
        self._files += 1
        table = self._table()
        if self.annotators:
            table = table_of_old_days(table)
        if columns is not None:
            table = table.select([column for column in table.column_names if column in columns])
        writer = self.chosen.choice(self.writers)
        path = self.folder / "kept" / f"{self._files}.parquet"
        WRITERS[writer](self.chosen, table, path)
        annotator = ""
        annotators = annotators_of(table, self.annotators)
        if name and annotators and self.chosen.random() < 0.75:
            writer = annotator = self.chosen.choice(list(annotators))
            pq.write_table(table, path)  # without the settings of a writer that lose values
            path.with_suffix(".landed").write_bytes(annotators[writer](self.chosen, table))
        name = name and f"{name.partition('.')[0]}.{annotator if annotator in self.formats else 'parquet'}"
        kinds = ", ".join(f"{column.name} {column.type}" for column in table.schema)
        self.log.append(f"{path.name} by {writer}: {table.num_rows} rows, {kinds}")
        return File(path, name, range(self._rows - table.num_rows, self._rows), annotator=annotator)

    def _land(self, text: str) -> None:
        """A file lands, and in mode replace may change or go."""
        chosen = self.chosen
        there = self.landed.setdefault(text, {})
        if self.mode == "replace" and there and chosen.random() < 0.6:
            name = chosen.choice(sorted(there))
            if chosen.random() < 0.4:
                self._unland(text, name)
                return
        else:
            name = f"f{self._files}.parquet"
        file = self._write(name)
        if file.name != name and name in there:
            self._unland(text, name)
        self._put(text, file)

    def _put(self, text: str, file: File) -> None:
        target = self._target(text, file.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copyfile(file.path.with_suffix(".landed") if file.annotator else file.path, target)
        self.landed[text][file.name] = file

    def _target(self, text: str, name: str) -> Path:
        return self.folder / "landing" / self.world.partition(text).path / name

    def _unland(self, text: str, name: str) -> None:
        self._target(text, name).unlink()
        del self.landed[text][name]
        self.log.append(f"{text}/{name} is deleted")

    # Runs.

    def run(self, differences: Callable[["Life"], Iterable[str]]) -> list[str]:
        """Live, and compare after some steps and at the end, until something differs."""
        with self._one_strategy(), jobs_here():
            steps = self.chosen.choice([2, 3, 4, 5])
            for step in range(steps):
                if self.commits and self.chosen.random() < 0.2:
                    self._client()
                else:
                    self._run()
                if self.wrong:
                    return self.wrong
                is_time = self.commits and (step == steps - 1 or self.chosen.random() < 0.2)
                if is_time and (found := list(differences(self))):
                    return found
        return []

    @contextmanager
    def _one_strategy(self) -> Iterator[None]:
        if self.strategy != "extension":
            yield
        elif self.mode == "index":
            with mock.patch("lake_assets.lake.commit.strategy.REGISTER_STRATEGIES", (register_by_extension,)):
                yield
        else:
            with mock.patch("lake_assets.lake.commit.strategy.strategies_of", return_value=(replace_by_extension,)):
                yield

    def _run(self) -> None:
        chosen = self.chosen
        picked = chosen.sample(self.texts, chosen.randint(1, min(2, len(self.texts))))
        for text in picked:
            for _ in range(chosen.choice([1, 1, 2, 3])):
                self._land(text)
        for text, error in self._ingest(picked):
            if error is not None:
                self._refuse(text, error)

    def _ingest(self, texts: Iterable[str]) -> list[tuple[str, Exception | None]]:
        """Ingest partitions; returns the error of each."""
        partitions = {self.world.partition(text): text for text in texts}
        result = []
        for outcome in ingest_all(self.world.stream, partitions, no_session, IngestOptions(outside=True)):
            text = partitions[outcome.partition]
            if outcome.error is None:
                assert outcome.is_done
                self.log.append(f"{text}: {outcome.row.status}")
                self.commits += outcome.row.status == "committed"
                self._commit(text, self.landed[text])
            result.append((text, outcome.error))
        return result

    def _commit(self, text: str, files: Mapping[str, File]) -> None:
        known = [] if self.mode == "replace" else self.lake.get(text, [])
        names = {file.name for file in known}
        self.lake[text] = known + [file for name, file in files.items() if name not in names]

    def _refuse(self, text: str, error: Exception) -> None:
        """What a run refuses is not in the lake; new files of it go, so that later runs have something to commit."""
        refused = self._refused(text, error)
        is_known = self.mode == "index" and any(text in str(error) for text in NOT_IN_PLACE)
        if any(file.annotator for file in refused) and not is_known and self._commits_plain(text, refused):
            self.wrong.append(f"refused, and not without annotations: {error}")
        if not self.commits:
            kept = [column for column in self.columns if f"'{column.name}" not in str(error)]
            self.columns = kept or [self._column(f"d{len(self.refused)}")]
            self.singles = {column.name for column in self.columns if column.is_single}

    def _refused(self, text: str, error: Exception) -> list[File]:
        """Take away the files that a run has refused, and return them."""
        if not isinstance(error, SchemaError | SourceError):
            raise error
        self.refused.append(str(error))
        self.log.append(f"{text}: {error}")
        before = {file.name for file in self.lake.get(text, [])}
        new = {name for name in self.landed[text] if name not in before or self.mode == "replace"}
        if self.mode == "index":  # each file by itself
            refused = {name for name in new if f"{name} " in f"{error} ".replace(":", " ").replace("'", " ")}
            self._commit(text, {name: file for name, file in self.landed[text].items() if name not in refused})
            new = refused
        files = [self.landed[text][name] for name in sorted(new)]
        for name in new:
            self._unland(text, name)
        return files

    def _commits_plain(self, text: str, files: Sequence[File]) -> bool:
        """Whether a run takes the same rows as plain Parquet."""
        for file in files:
            self._put(text, replace(file, name=f"plain{file.path.stem}.parquet", annotator=""))
        ((_, error),) = self._ingest([text])
        if error is not None:
            self._refused(text, error)
        return error is None

    def _client(self) -> None:
        """A plain client of DuckLake inserts a file's rows into a partition that no run touches, or deletes one."""
        text = ",".join(f"{name}={CLIENT[name]}" for name in self.partitions)
        files = self.lake.setdefault(text, [])
        present = [number for file in files for number in file.ids if number not in self.deleted]
        with plain_client(self.world.config.lakes["test"], read_only=False) as client:
            if present and self.chosen.random() < 0.4:
                number = self.chosen.choice(present)
                client.execute("DELETE FROM lake.sales WHERE id = ?", [number])
                self.deleted.add(number)
                self.log.append(f"a client deletes row {number}")
                return
            types = {name: kind for name, kind, *_ in client.execute("DESCRIBE lake.sales").fetchall()}
            file = self._write("", types)
            try:
                client.execute(f"INSERT INTO lake.sales BY NAME {self.select(client, text, file, types)}")
            except duckdb.ConversionException as error:
                self.log.append(f"a client cannot insert {file.path.name}: {error}")
            else:
                files.append(replace(file, types=types))
                self.log.append(f"a client inserts {file.path.name}")


def random_kind(chosen: random.Random, leaves: Sequence[pa.DataType], depth: int = 0) -> pa.DataType:
    """A type of these leaves, in a third of cases in a list, a struct or a map."""
    if depth > 1 or chosen.random() < (0.7 if depth == 0 else 0.6):
        return chosen.choice(leaves)
    inner = [random_kind(chosen, leaves, depth + 1) for _ in range(2)]
    match chosen.choice(["list", "struct", "struct", "map"]):
        case "list":
            return pa.list_(inner[0])
        case "map":
            return pa.map_(pa.string(), inner[0])
        case _:
            return pa.struct([("x", inner[0]), ("y.z", inner[1])])


def chain_of(kind: pa.DataType) -> Sequence[pa.DataType]:
    """The types that later files may have."""
    if t.is_struct(kind) and kind.num_fields == 2:
        return (kind, pa.struct([*kind, ("more", pa.int32())]))
    return next((chain for chain in CHAINS if kind in chain), (kind,))
