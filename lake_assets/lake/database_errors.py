"""The error texts of catalogs' databases by which errors are distinguished, one table for each vendor.

`lake/test_vendor_errors.py` provokes each text on the real vendor, unless the table says otherwise.
"""

from enum import Enum, auto

from lake_assets.base.vendor_texts import Text, Texts


class Meaning(Enum):
    """The meaning of an error text."""

    LOCKED = auto()  # another process has locked the catalog or a table of it
    CONFLICT = auto()  # another writer was faster
    ABSENT = auto()  # there is no lake
    GONE = auto()  # the catalog has no table or column of this name
    ENCRYPTION = auto()  # the lake was created with the other setting of `encrypted`
    AWAY = auto()  # the catalog's server is unreachable, or accepts no connections for now
    FILES_KEPT = auto()  # a commit has failed, and DuckLake could not delete its files
    LOST = auto()  # the connection to the catalog's server was lost
    REFUSED = auto()  # the catalog's server refuses for good
    UNTRUSTED = auto()  # client and server do not agree about encryption or a certificate
    NOT_CONNECTED = auto()  # the catalog's server is unreachable or refuses
    NO_CREDENTIALS = auto()  # the credential chain of a storage has no credentials
    FULL = auto()  # a disk has no space left
    IO_ERROR = auto()  # a disk fails, perhaps because it has no space left
    REJECTED = auto()  # the catalog refuses a statement for a reason that `advice` resolves


_NOT_INLINED = "set attach_options: {data_inlining_row_limit: 0}, so that DuckLake creates no table of inlined rows"
_RIGHTS = "let this user read and write that file and its folder."
_LOST = (
    "run `lake-assets index STREAM --repair` if it is a landed object, which removes its rows, or else ingest its "
    "partition with --force."
)
_TORN = (
    "let a user who may write it run `lake-assets report`, which restores it after a checkpoint in which a process has "
    "died; if the error remains, restore a backup by `lake-assets catalog restore --replace`."
)
_ELSEWHERE = "run it in a folder that exists."
_FEWER_COLUMNS = f"leave columns out by omit: true in `columns`, or {_NOT_INLINED}."

SQLITE = (
    Text("database is locked", Meaning.LOCKED, "another connection writes"),
    Text("database table is locked", Meaning.LOCKED, "another connection of a shared cache writes"),
    Text("unique constraint", Meaning.CONFLICT, "another writer has committed a snapshot of the same number"),
    Text("no such (?:table|column)", Meaning.GONE, "a statement names a table or column that is not there"),
    Text("unable to open database file", Meaning.ABSENT, "the folder of the catalog's file is not there"),
    Text("database or disk is full", Meaning.FULL, "the disk of the catalog's file has no space left"),
    Text("disk I/O error", Meaning.IO_ERROR, "the disk has no space for the file that its readers share", False),
    Text("attempt to write a readonly database", Meaning.REJECTED, "the user may not write the file", advice=_RIGHTS),
    Text(r"too many columns on \w+", Meaning.REJECTED, "a table has over 2,000 columns", advice=_FEWER_COLUMNS),
)

DUCKDB = (
    Text("could not set lock on file", Meaning.LOCKED, "another process has the catalog's file open"),
    Text("conflict on", Meaning.CONFLICT, "another transaction has changed the row"),
    Text("write-write conflict", Meaning.CONFLICT, "another transaction has made or changed the table"),
    Text("duplicate key", Meaning.CONFLICT, "another writer has committed a snapshot of the same number"),
    Text("Table with name .* does not exist", Meaning.GONE, "a statement names a table that is not there"),
    Text("Referenced column .* not found", Meaning.GONE, "a statement names a column that is not there"),
    Text("File system .* has been disabled by configuration", Meaning.FILES_KEPT, "a file is deleted"),
    Text("Cannot open file .*: Permission denied", Meaning.REJECTED, "the user may not open it", False, _RIGHTS),
    Text("Corrupt database file", Meaning.REJECTED, "a process has died in a checkpoint", False, _TORN),
    Text('Cannot open file "[^"]+": No such file', Meaning.REJECTED, "a file of a table is gone", False, _LOST),
    Text("error reading '[^']+'.* \\(HTTP 404 ", Meaning.REJECTED, "the same of a table in a bucket", False, _LOST),
    Text("Could not get working directory", Meaning.REJECTED, "the current folder is gone", False, _ELSEWHERE),
    Text("No space left on device", Meaning.FULL, "the disk of the catalog or of a data file is full", False),
    Text("Unable to connect to Postgres", Meaning.NOT_CONNECTED, "a connection to the catalog's server fails"),
    Text("Secret Validation Failure", Meaning.NO_CREDENTIALS, "the credential chain has no credentials"),
    Text(
        r'Failed to execute query "ROLLBACK":\s*$', Meaning.LOST, "the server of the catalog left at the commit", False
    ),
)

DUCKLAKE = (
    Text("transaction conflict", Meaning.CONFLICT, "another writer has changed the same table"),
    Text("does not exist", Meaning.ABSENT, "the catalog's database has no lake, and none is to be created"),
    Text("Failed to set encryption", Meaning.ENCRYPTION, "the lake was created with the other setting"),
    Text(
        r"DATA_PATH parameter .* does not match existing data path in the catalog [^\n]*",
        Meaning.REJECTED,
        "the lake was created with another storage",
        advice="correct `storage`; if the lake's files were moved there, set attach_options: "
        "{override_data_path: true}.",
    ),
    Text(
        r"DuckLake catalog version mismatch: catalog version is [^,]+, but the extension requires version [\w.-]*\w",
        Meaning.REJECTED,
        "the catalog is of an older or newer specification",
        advice="migrate an older catalog with attach_options: {automatic_migration: true}; for a newer one upgrade "
        "lake_assets.",
    ),
    Text(
        r"Column name .* is reserved by DuckLake for internal use",
        Meaning.REJECTED,
        "a column has a name that DuckLake uses in its tables of inlined rows",
        advice=f"rename the column where it is written or by `from` in `columns`, or {_NOT_INLINED}.",
    ),
)

_BY_THE_NETWORK = "the network of the client or the server fails so"

POSTGRES = (
    Text("lock timeout", Meaning.LOCKED, "another session holds a table for longer than lock_timeout"),
    Text("duplicate key", Meaning.CONFLICT, "another writer has committed a snapshot of the same number"),
    Text("could not serialize", Meaning.CONFLICT, "another transaction has changed the row"),
    Text("No space left on device", Meaning.FULL, "the disk of the server's data is full", False),
    Text("(?:relation|column) .* does not exist", Meaning.GONE, "a statement names one that is not there"),
    Text("deadlock detected", Meaning.CONFLICT, "two transactions wait for each other"),
    Text(
        "tables can have at most \\d+ columns", Meaning.REJECTED, "a table has over 1,600 columns", True, _FEWER_COLUMNS
    ),
    Text(
        r"permission denied for (?:table|schema|view|relation) \S*\w",
        Meaning.REJECTED,
        "the user lacks a right",
        advice="grant it to the catalog's user. deploy/postgres/roles.sql has the rights that each kind of user needs.",
    ),
    Text(
        "canceling statement due to statement timeout",
        Meaning.REJECTED,
        "a statement takes longer than statement_timeout",
        advice="raise it for the catalog's user: ALTER ROLE … IN DATABASE … SET statement_timeout = '10min'.",
    ),
    Text(
        r"cannot execute [A-Z ]+ (?:in a read-only transaction|during recovery)",
        Meaning.REJECTED,
        "the server is a replica, or default_transaction_read_only is on",
        advice="connect to the primary server, with a user that has no default_transaction_read_only.",
    ),
    Text(
        r'character with byte sequence .* has no equivalent in encoding "\w+"',
        Meaning.REJECTED,
        "the catalog's database cannot hold the text",
        advice="create another database with TEMPLATE template0 ENCODING 'UTF8' for the catalog.",
    ),
    # texts of the client
    Text("Connection refused", Meaning.AWAY, "nothing listens on the port"),
    Text("Is the server running", Meaning.AWAY, "nothing listens on the port"),
    Text("timeout expired", Meaning.AWAY, "the server does not answer within connect_timeout"),
    Text("timed out|No route to host|Network is unreachable", Meaning.AWAY, _BY_THE_NETWORK, False),
    Text("Temporary failure in name resolution", Meaning.AWAY, _BY_THE_NETWORK, False),
    Text("Connection reset by peer|Broken pipe", Meaning.AWAY, "the server's machine cuts the connection", False),
    Text("server closed the connection", Meaning.AWAY, "the session's process ends"),
    Text("connection has been closed unexpectedly|SYSCALL error: EOF", Meaning.AWAY, "the same, encrypted", False),
    Text("connection is lost", Meaning.AWAY, "a statement follows on a connection that was lost"),
    Text("no connection to the server", Meaning.AWAY, "a statement follows on a connection that was lost", False),
    Text("could not (?:receive data from|send data to) server", Meaning.AWAY, _BY_THE_NETWORK, False),
    # a pooler's
    Text("query_wait_timeout|no more connections allowed", Meaning.AWAY, "all its sessions are in use", False),
    Text(
        "server conn crashed|login has been failing|pgbouncer cannot connect", Meaning.AWAY, "it has no server", False
    ),
    # the server's
    Text("terminating connection", Meaning.AWAY, "an administrator ends the session, or the server stops"),
    Text("the database system is shutting down", Meaning.AWAY, "the server ends its sessions and accepts no more"),
    Text("the database system is (?:starting up|not yet accepting|in recovery)", Meaning.AWAY, "for a moment", False),
    Text("too many clients already", Meaning.AWAY, "max_connections is reached"),
    Text("too many connections for", Meaning.AWAY, "the limit of the role or of the database is reached"),
    Text("remaining connection slots are reserved", Meaning.AWAY, "only superusers may still connect"),
    Text("certificate|private key|SSL error|weak sslmode", Meaning.UNTRUSTED, "a side does not trust the other", False),
    Text("server does not support SSL", Meaning.UNTRUSTED, "sslmode demands what the server has not"),
    Text("no encryption|SSL required", Meaning.UNTRUSTED, "the server demands what sslmode forbids", False),
    Text("authentication failed", Meaning.REFUSED, "the password is wrong"),
    Text("no password supplied", Meaning.REFUSED, "the server requires a password, and the config has none"),
    Text(r"no pg_hba\.conf entry", Meaning.REFUSED, "the server does not admit the host, user or database"),
    Text(r"(?:role|database) \"[^\"]*\" does not exist", Meaning.REFUSED, "the server has no such role or database"),
)

MOTHERDUCK = (Text("no database/share named", Meaning.ABSENT, "the database is not there; needs an account", False),)

_TEXTS = Texts(
    {"SQLite": SQLITE, "DuckDB": DUCKDB, "DuckLake": DUCKLAKE, "PostgreSQL": POSTGRES, "MotherDuck": MOTHERDUCK},
    ignoring_case={Meaning.LOCKED, Meaning.CONFLICT},
)
VENDORS = _TEXTS.vendors


def texts(means: Meaning) -> tuple[Text[Meaning], ...]:
    """Return the texts of all vendors with this meaning."""
    return _TEXTS.of(means)


def matches(error: object, means: Meaning) -> bool:
    """Return whether the text of an error has this meaning."""
    return _TEXTS.find(error, means) is not None
