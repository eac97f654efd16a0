"""The JSON of `--format json`: a class for each command's document, and its JSON Schema.

A key is never removed, renamed or given another type within a major version; new ones may be added. The text after a
field is its description in the schema and in the reference.
"""
