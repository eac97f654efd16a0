"""What `lake-assets init` writes: a starter project with a commented config, and a little landed data."""
