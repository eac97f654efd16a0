"""The DuckLake: attach, create tables, commit a partition, ledger."""
