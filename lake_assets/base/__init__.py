"""What every room uses: errors, events, progress, retries, texts, the machine, DuckDB's engine."""
