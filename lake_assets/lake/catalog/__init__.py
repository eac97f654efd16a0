"""The catalog's own tables: every statement that names a `ducklake_*` table is in here."""
