"""The demo: real flights, their landing zone, and the config of the lake."""
