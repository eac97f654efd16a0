"""Mode append."""
