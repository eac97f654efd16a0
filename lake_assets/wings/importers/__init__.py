"""Configs from elsewhere: OLake's catalog, a Flight's variables, a look at a part of a landing zone."""
