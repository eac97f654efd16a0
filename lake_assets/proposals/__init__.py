"""Streams that fit a landing zone, from a look at a part of its objects: `lake-assets init --from`."""
