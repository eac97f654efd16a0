"""The demo: real flights, the folder that they land in, and the config that takes them into a lake."""
