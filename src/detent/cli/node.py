"""`detent node`: runs one node until it is told to stop."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, TypeVar

import click

from detent.app import App
from detent.cli.command import Failed, Whole, example, store_options
from detent.cli.locate import aim, find_app
from detent.cli.running import run
from detent.cli.supervise import (
    SENT_AWAY,
    Supervisor,
    command_of_child,
    names_for,
    take_lifeline,
)
from detent.config import NodeConfig
from detent.errors import ConfigError
from detent.running import RunningNode

LOG_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
THREAD_GRACE: Final = 0.5
TASK_GRACE: Final = 5.0
# The same, and for closing connections, when the store does not answer.
CLOSE_GRACE: Final = 0.5
LEVELS: Final = ("debug", "info", "warning", "error")

Command = TypeVar("Command", bound=Callable[..., Any])


def _setting_option(flag: str, metavar: str, text: str) -> Callable[[Command], Command]:
    """Return an option that is read, and refused, as the same key of `[node]` is."""

    def read(_: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else NodeConfig.read(str(parameter.name), value)
        except ConfigError as error:
            raise click.BadParameter(str(error)) from error

    return click.option(flag, metavar=metavar, callback=read, help=text)


@click.command(
    "node",
    epilog=example(
        "detent node shop.jobs:app",
        "detent node shop.jobs:app --queues mail=20,default=50 --drain-timeout 2m",
        "detent node shop.jobs:app --processes 4 --max-rss 1GB",
    ),
)
@click.argument("place", metavar="APP")
@_setting_option(
    "--queues", "mail=20,...", "Queues, and how many jobs of each run at once; '*' is all."
)
@_setting_option("--concurrency", "N", 'How many jobs run at once, of the queue "default".')
@_setting_option("--name", "NAME", "The node's name.  [default: the host's]")
@_setting_option("--roles", "worker,...", "What the node does.  [default: everything]")
@_setting_option("--capabilities", "gpu,...", "What the node offers to tasks that need it.")
@_setting_option("--drain-timeout", "30s", "How long jobs may go on when the node stops.")
@_setting_option("--max-jobs", "N", "Drain and end after so many jobs.")
@_setting_option("--max-rss", "1GB", "Drain and end when the process has grown that big.")
@click.option(
    "--processes",
    metavar="N",
    type=Whole(1, 1000),
    help="Run N nodes under a parent that replaces those that die.",
)
@store_options
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default="info",
    show_default=True,
)
def node_command(
    *,
    place: str,
    processes: int | None,
    url: str | None,
    schema: str | None,
    log_level: str,
    **settings: Any,
) -> None:
    """Run a node that works on the jobs of APP.

    APP is module:attribute; the module is looked for in the current directory too. The first
    SIGTERM or SIGINT (Ctrl-C) lets running jobs end, the second gives them back at once.
    """
    signal.signal(signal.SIGTERM, _leave)
    # The level counts when the node starts; the handler comes after the application's own.
    logging.getLogger("detent").setLevel(log_level.upper())
    app = find_app(place)
    if not logging.getLogger().handlers:
        logging.basicConfig(stream=sys.stderr, format=LOG_FORMAT, level=log_level.upper())
    aim(app, url, schema)
    if settings["queues"] is not None and not settings["queues"]:
        # Say of a variable that was not set: it must not become another queue.
        raise click.UsageError("--queues '': must name queues, like mail=20,default=50")
    own_queues = settings["queues"] or app.config.node.queues
    if settings["concurrency"] is not None and own_queues:
        raise click.UsageError("--concurrency is for queues that are not named; use --queues")
    given = settings["drain_timeout"]
    drain = app.config.node.drain_timeout if given is None else given
    if processes is not None:
        base = settings["name"] or app.config.node.name or socket.gethostname()
        names, command = names_for(base, processes), command_of_child(sys.argv[1:])
        supervisor = Supervisor(app, command, names, drain)
        run(supervisor.run(), app.config, for_long=True)
        return
    node = app.node(**settings)
    _calm_collector()
    sys.exit(run(_serve(app, node, drain), app.config, for_long=True))


def _leave(*_: object) -> None:
    """Leave in peace before there is anything to drain.

    Importing an application may take seconds, and the first process of a container is only given
    the signals that it handles.
    """
    raise SystemExit(0)


def _calm_collector() -> None:
    """Let the garbage collector run less often, over less.

    A node makes a few objects for every job, nearly all of which are gone by themselves a moment
    later, and keeps the application's for ever. With Python's own settings a tenth of a node's
    time went into looking through them (measured).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 50, 100)


async def _serve(app: App, node: RunningNode, drain: timedelta) -> int:
    """Run the node from its start to its end, whatever signals come in between.

    Return how the process ends: its parent, if there is one, is told not to replace it.
    """
    stopper = Stopper(node, drain.total_seconds())
    stopper.listen()
    # What jobs do by asyncio.to_thread, which Python would wait for as long as it takes.
    pool = ThreadPoolExecutor(thread_name_prefix="detent-job-asyncio")
    asyncio.get_running_loop().set_default_executor(pool)
    try:
        await stopper.start()
        await node.wait_stopped()
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_GRACE if node.store_is_silent else None):
                await app.close()
    code = SENT_AWAY if stopper.has_parent and node.was_sent_away else 0
    pool.shutdown(wait=False, cancel_futures=True)
    grace = CLOSE_GRACE if node.store_is_silent else TASK_GRACE
    if await _stuck_tasks(grace) or _stuck_threads():
        # Python would wait for them, and their jobs are already free to run elsewhere.
        logging.shutdown()
        os._exit(code)
    return code


class Stopper:
    """Turns the first signal into a drain, and the second into a quick one."""

    def __init__(self, node: RunningNode, drain: float) -> None:
        self._node = node
        self._drain = drain
        self._signals = 0
        self._starting: asyncio.Task[None] | None = None
        self.has_parent = False
        """Whether `--processes` started this process."""

    def listen(self) -> None:
        """Handle the signals that ask a process to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            _handle(loop, number, self.stop)
        lifeline = take_lifeline(os.environ)
        if lifeline is not None:
            self.has_parent = True
            loop.add_reader(lifeline, self._orphaned, loop, lifeline)

    def _orphaned(self, loop: asyncio.AbstractEventLoop, lifeline: int) -> None:
        """The parent is gone: nobody would replace this process, nor end it."""
        loop.remove_reader(lifeline)
        self.stop()

    def stop(self) -> None:
        """Stop the node; the more often this is called, the sooner."""
        self._signals += 1
        if self._starting is None:
            self._node.stop(now=self._signals > 1)
        elif self._signals > 1:
            self._starting.cancel()
        else:
            # It may wait for a database that is silent.
            asyncio.get_running_loop().call_later(self._drain, self._starting.cancel)

    async def start(self) -> None:
        """Start the node; one that was told to stop meanwhile stops as soon as it can.

        It has as long for that as a drain may take.
        """
        self._starting = asyncio.ensure_future(self._node.start())
        try:
            await self._starting
        except asyncio.CancelledError as error:
            raise Failed("stopped before the node had started") from error
        finally:
            self._starting = None
        if self._signals:
            self._node.stop(now=self._signals > 1)


def _handle(
    loop: asyncio.AbstractEventLoop, number: signal.Signals, handler: Callable[[], None]
) -> None:
    try:
        loop.add_signal_handler(number, handler)
    except NotImplementedError:  # Windows
        signal.signal(number, lambda *_: _call_soon(loop, handler))


def _call_soon(loop: asyncio.AbstractEventLoop, handler: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(handler)


async def _stuck_tasks(grace: float) -> bool:
    """Cancel what is left on the event loop; tell whether something of it goes on all the same."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if not left:
        return False
    _, stuck = await asyncio.wait(left, timeout=grace)
    return bool(stuck)


def _stuck_threads() -> bool:
    """Tell whether threads of given-up jobs go on."""
    ends_at = time.monotonic() + THREAD_GRACE
    threads = [each for each in threading.enumerate() if each.name.startswith("detent-job")]
    for thread in threads:
        thread.join(max(0.0, ends_at - time.monotonic()))
    return any(thread.is_alive() for thread in threads)
