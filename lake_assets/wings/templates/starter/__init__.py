"""What `lake-assets init` writes: a starter project with a commented config, and some landed data."""
