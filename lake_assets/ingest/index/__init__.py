"""Mode index: landed objects become lake files as they are."""
