"""`python -m detent` is `detent`."""

from detent.cli import main

main(prog_name="detent")
