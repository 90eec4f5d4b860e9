"""One adapter per peer, run inside that peer's own environment (see `bench.adapter`)."""
