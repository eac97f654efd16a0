"""What the developers of the package run: how large it is, how fast, beside which peers, and on which servers."""
