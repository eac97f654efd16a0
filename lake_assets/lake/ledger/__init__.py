"""The run ledger and the manifest of objects: their tables, and what is read from them."""
