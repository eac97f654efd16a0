"""The work inside a task: it reads landed objects and writes data files, or reads a table's files.

Nothing in here imports PySpark, and only `decryption` imports DuckDB.

A landed object that is damaged is a SourceError, one that changed since the listing a SourceChangedError, and one that
does not fit a SchemaError; below `shares`, which names the object, damage is Arrow's ArrowInvalid or an OSError. A
storage raises StorageError, as the functions of `storage` do.
"""
