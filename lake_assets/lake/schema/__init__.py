"""A table's columns: types, creation, evolution."""
