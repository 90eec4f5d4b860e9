"""How fast Detent is, beside raw SQL and its peers, in one run on one machine.

`python -m bench` from the root of the repository; `bench/README.md` says how to read the output.
Modules that run inside a peer's own environment (`probe`, `adapter`, `subject`, `peers/`) use
nothing but the standard library and that peer.
"""
