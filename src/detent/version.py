"""The version of the package, and nothing else."""

from typing import Final

__version__: Final = "0.1.0"
