"""The nodes of the cluster tests: `detent node` with the tasks of `workload.py`."""

from pathlib import Path
from typing import Final

from tests.node_process import NodeProcess, Start

__all__ = ["APP", "ROOT", "NodeProcess", "Start"]

ROOT: Final = Path(__file__).parents[2]
APP: Final = "tests.cluster.workload:app"
