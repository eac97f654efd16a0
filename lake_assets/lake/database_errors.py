"""The error texts of catalogs' databases by which errors are distinguished, one table for each vendor.

`lake/test_vendor_errors.py` provokes each text on the real vendor, unless the table says otherwise.
"""

from enum import Enum, auto

from lake_assets.base.texts import VendorText, VendorTexts


class Fault(Enum):
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
    VendorText("database is locked", Fault.LOCKED, "another connection writes"),
    VendorText("database table is locked", Fault.LOCKED, "another connection of a shared cache writes"),
    VendorText("unique constraint", Fault.CONFLICT, "another writer has committed a snapshot of the same number"),
    VendorText("no such (?:table|column)", Fault.GONE, "a statement names a table or column that is not there"),
    VendorText("unable to open database file", Fault.ABSENT, "the folder of the catalog's file is not there"),
    VendorText("database or disk is full", Fault.FULL, "the disk of the catalog's file has no space left"),
    VendorText("disk I/O error", Fault.IO_ERROR, "the disk has no space for the file that its readers share", False),
    VendorText(
        "attempt to write a readonly database", Fault.REJECTED, "the user may not write the file", advice=_RIGHTS
    ),
    VendorText(r"too many columns on \w+", Fault.REJECTED, "a table has over 2,000 columns", advice=_FEWER_COLUMNS),
)

DUCKDB = (
    VendorText("could not set lock on file", Fault.LOCKED, "another process has the catalog's file open"),
    VendorText("conflict on", Fault.CONFLICT, "another transaction has changed the row"),
    VendorText("write-write conflict", Fault.CONFLICT, "another transaction has made or changed the table"),
    VendorText("duplicate key", Fault.CONFLICT, "another writer has committed a snapshot of the same number"),
    VendorText("Table with name .* does not exist", Fault.GONE, "a statement names a table that is not there"),
    VendorText("Referenced column .* not found", Fault.GONE, "a statement names a column that is not there"),
    VendorText("File system .* has been disabled by configuration", Fault.FILES_KEPT, "a file is deleted"),
    VendorText("Cannot open file .*: Permission denied", Fault.REJECTED, "the user may not open it", False, _RIGHTS),
    VendorText("Corrupt database file", Fault.REJECTED, "a process has died in a checkpoint", False, _TORN),
    VendorText('Cannot open file "[^"]+": No such file', Fault.REJECTED, "a file of a table is gone", False, _LOST),
    VendorText("error reading '[^']+'.* \\(HTTP 404 ", Fault.REJECTED, "the same of a table in a bucket", False, _LOST),
    VendorText("Could not get working directory", Fault.REJECTED, "the current folder is gone", False, _ELSEWHERE),
    VendorText("No space left on device", Fault.FULL, "the disk of the catalog or of a data file is full", False),
    VendorText("Unable to connect to Postgres", Fault.NOT_CONNECTED, "a connection to the catalog's server fails"),
    VendorText("Secret Validation Failure", Fault.NO_CREDENTIALS, "the credential chain has no credentials"),
    VendorText(
        r'Failed to execute query "ROLLBACK":\s*$', Fault.LOST, "the server of the catalog left at the commit", False
    ),
)

DUCKLAKE = (
    VendorText("transaction conflict", Fault.CONFLICT, "another writer has changed the same table"),
    VendorText("does not exist", Fault.ABSENT, "the catalog's database has no lake, and none is to be created"),
    VendorText("Failed to set encryption", Fault.ENCRYPTION, "the lake was created with the other setting"),
    VendorText(
        r"DATA_PATH parameter .* does not match existing data path in the catalog [^\n]*",
        Fault.REJECTED,
        "the lake was created with another storage",
        advice="correct `storage`; if the lake's files were moved there, set attach_options: "
        "{override_data_path: true}.",
    ),
    VendorText(
        r"DuckLake catalog version mismatch: catalog version is [^,]+, but the extension requires version [\w.-]*\w",
        Fault.REJECTED,
        "the catalog is of an older or newer specification",
        advice="migrate an older catalog with attach_options: {automatic_migration: true}; for a newer one upgrade "
        "lake_assets.",
    ),
    VendorText(
        r"Column name .* is reserved by DuckLake for internal use",
        Fault.REJECTED,
        "a column has a name that DuckLake uses in its tables of inlined rows",
        advice=f"rename the column where it is written or by `from` in `columns`, or {_NOT_INLINED}.",
    ),
)

_BY_THE_NETWORK = "the network of the client or the server fails so"

POSTGRES = (
    VendorText("lock timeout", Fault.LOCKED, "another session holds a table for longer than lock_timeout"),
    VendorText("duplicate key", Fault.CONFLICT, "another writer has committed a snapshot of the same number"),
    VendorText("could not serialize", Fault.CONFLICT, "another transaction has changed the row"),
    VendorText("No space left on device", Fault.FULL, "the disk of the server's data is full", False),
    VendorText("(?:relation|column) .* does not exist", Fault.GONE, "a statement names one that is not there"),
    VendorText("deadlock detected", Fault.CONFLICT, "two transactions wait for each other"),
    VendorText(
        "tables can have at most \\d+ columns", Fault.REJECTED, "a table has over 1,600 columns", True, _FEWER_COLUMNS
    ),
    VendorText(
        r"permission denied for (?:table|schema|view|relation) \S*\w",
        Fault.REJECTED,
        "the user lacks a right",
        advice="grant it to the catalog's user. deploy/postgres/roles.sql has the rights that each kind of user needs.",
    ),
    VendorText(
        "canceling statement due to statement timeout",
        Fault.REJECTED,
        "a statement takes longer than statement_timeout",
        advice="raise it for the catalog's user: ALTER ROLE … IN DATABASE … SET statement_timeout = '10min'.",
    ),
    VendorText(
        r"cannot execute [A-Z ]+ (?:in a read-only transaction|during recovery)",
        Fault.REJECTED,
        "the server is a replica, or default_transaction_read_only is on",
        advice="connect to the primary server, with a user that has no default_transaction_read_only.",
    ),
    VendorText(
        r'character with byte sequence .* has no equivalent in encoding "\w+"',
        Fault.REJECTED,
        "the catalog's database cannot hold the text",
        advice="create another database with TEMPLATE template0 ENCODING 'UTF8' for the catalog.",
    ),
    # texts of the client
    VendorText("Connection refused", Fault.AWAY, "nothing listens on the port"),
    VendorText("Is the server running", Fault.AWAY, "nothing listens on the port"),
    VendorText("timeout expired", Fault.AWAY, "the server does not answer within connect_timeout"),
    VendorText("timed out|No route to host|Network is unreachable", Fault.AWAY, _BY_THE_NETWORK, False),
    VendorText("Temporary failure in name resolution", Fault.AWAY, _BY_THE_NETWORK, False),
    VendorText("Connection reset by peer|Broken pipe", Fault.AWAY, "the server's machine cuts the connection", False),
    VendorText("server closed the connection", Fault.AWAY, "the session's process ends"),
    VendorText("connection has been closed unexpectedly|SYSCALL error: EOF", Fault.AWAY, "the same, encrypted", False),
    VendorText("connection is lost", Fault.AWAY, "a statement follows on a connection that was lost"),
    VendorText("no connection to the server", Fault.AWAY, "a statement follows on a connection that was lost", False),
    VendorText("could not (?:receive data from|send data to) server", Fault.AWAY, _BY_THE_NETWORK, False),
    # a pooler's
    VendorText("query_wait_timeout|no more connections allowed", Fault.AWAY, "all its sessions are in use", False),
    VendorText(
        "server conn crashed|login has been failing|pgbouncer cannot connect", Fault.AWAY, "it has no server", False
    ),
    # the server's
    VendorText("terminating connection", Fault.AWAY, "an administrator ends the session, or the server stops"),
    VendorText("the database system is shutting down", Fault.AWAY, "the server ends its sessions and accepts no more"),
    VendorText(
        "the database system is (?:starting up|not yet accepting|in recovery)", Fault.AWAY, "for a moment", False
    ),
    VendorText("too many clients already", Fault.AWAY, "max_connections is reached"),
    VendorText("too many connections for", Fault.AWAY, "the limit of the role or of the database is reached"),
    VendorText("remaining connection slots are reserved", Fault.AWAY, "only superusers may still connect"),
    VendorText(
        "certificate|private key|SSL error|weak sslmode", Fault.UNTRUSTED, "a side does not trust the other", False
    ),
    VendorText("server does not support SSL", Fault.UNTRUSTED, "sslmode demands what the server has not"),
    VendorText("no encryption|SSL required", Fault.UNTRUSTED, "the server demands what sslmode forbids", False),
    VendorText("authentication failed", Fault.REFUSED, "the password is wrong"),
    VendorText("no password supplied", Fault.REFUSED, "the server requires a password, and the config has none"),
    VendorText(r"no pg_hba\.conf entry", Fault.REFUSED, "the server does not admit the host, user or database"),
    VendorText(
        r"(?:role|database) \"[^\"]*\" does not exist", Fault.REFUSED, "the server has no such role or database"
    ),
)

MOTHERDUCK = (
    VendorText("no database/share named", Fault.ABSENT, "the database is not there; needs an account", False),
)

_TEXTS = VendorTexts(
    {"SQLite": SQLITE, "DuckDB": DUCKDB, "DuckLake": DUCKLAKE, "PostgreSQL": POSTGRES, "MotherDuck": MOTHERDUCK},
    ignoring_case={Fault.LOCKED, Fault.CONFLICT},
)
VENDORS = _TEXTS.vendors


def fault_texts(means: Fault) -> tuple[VendorText[Fault], ...]:
    """Return the texts of all vendors with this meaning."""
    return _TEXTS.of(means)


def matches(error: object, means: Fault) -> bool:
    """Return whether the text of an error has this meaning."""
    return _TEXTS.find(error, means) is not None
