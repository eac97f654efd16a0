"""The direct strategy: DuckLake's specification written into the catalog's own tables."""
