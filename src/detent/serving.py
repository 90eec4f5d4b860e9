"""Which queues a node serves, and which tasks of its app it will therefore never run."""

from collections.abc import Iterable, Mapping
from typing import Final

from detent.config import Config, NodeConfig
from detent.config.readers import EVERY_QUEUE
from detent.tasks import Registry, Task

DEFAULT: Final = "default"


def served_queues(
    config: NodeConfig, tasks: Iterable[Task[..., object]], others: Iterable[str] = ()
) -> dict[str, int]:
    """Return the queues of a node and how many jobs of each it runs at once.

    Those that the settings name; without any, `default` and the queues that tasks declare, each
    with `concurrency`. With `*` these as well, and the `others` that are known.
    """
    named = {queue: slots for queue, slots in config.queues.items() if queue != EVERY_QUEUE}
    if config.queues and EVERY_QUEUE not in config.queues:
        return named
    slots = config.queues.get(EVERY_QUEUE) or config.concurrency
    declared = sorted({task.options_declared.queue for task in tasks})
    everything = others if EVERY_QUEUE in config.queues else ()
    return {DEFAULT: slots, **dict.fromkeys((*declared, *everything), slots), **named}


def unreached(
    registry: Registry, queues: Mapping[str, int], capabilities: Iterable[str]
) -> dict[str, str]:
    """Return the tasks that a node will not run, with what it lacks for each.

    A node without queues is no worker, so it lacks nothing.
    """
    offered, found = set(capabilities), dict[str, str]()
    for task in registry if queues else ():
        declared = task.options_declared
        if declared.queue not in queues:
            found[task.name] = f"the queue {declared.queue}"
        elif lacks := sorted(set(declared.needs) - offered):
            found[task.name] = ", ".join(lacks)
    return found


def wants_all(config: Config) -> bool:
    """Whether a node is to serve every queue that is known when it starts."""
    return EVERY_QUEUE in config.node.queues
