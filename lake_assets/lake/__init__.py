"""The DuckLake: attach, create tables, commit a partition, ledger.

Functions that read or write a lake raise CatalogError if the catalog cannot be read or refuses,
CatalogUnreachableError, a kind of it, if its server is away, and StorageError if a storage of the lake does.
NotDirectError, by which a caller chooses another strategy, says that only DuckLake itself can do what was asked;
nothing has changed then.
"""
