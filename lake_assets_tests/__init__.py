"""The tests of lake_assets, room by room."""
