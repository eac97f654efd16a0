"""Random tables: what the lake answers, beside what a plain reader of the landed files answers."""
