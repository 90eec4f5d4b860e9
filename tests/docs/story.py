"""Runs blocks as a reader would type them: in order, in one module, with `await` at the top."""

import ast
import asyncio
import inspect
import io
import sys
import tokenize
from collections import defaultdict
from contextlib import AsyncExitStack
from types import ModuleType
from typing import Any, Self

from detent import App
from tests.docs.blocks import Block, Code

MODULE = "tasks"


class Story:
    """The module that blocks run in, and what they print.

    `print(...)  # text` is a promise: the test fails unless exactly that is printed.
    """

    def __init__(self) -> None:
        self.module = ModuleType(MODULE)
        self.names: dict[str, Any] = self.module.__dict__
        self.names["print"] = self._print
        self._printed: dict[int, list[str]] = defaultdict(list)
        self._stack = AsyncExitStack()
        self._node_runs = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        app = self.names.get("app")
        if isinstance(app, App):
            await asyncio.to_thread(self._close_blocking_face, app)
            await app.close()

    async def tell(self, block: Block) -> None:
        """Run a block with all that stands before it."""
        for each in [*block.before(), block]:
            await self._tell_one(each)

    async def _tell_one(self, block: Block) -> None:
        path = str(block.page)
        if block.setup is not None:
            await self._run(block.setup, path)
        if "node" in block.marks and not self._node_runs:
            self._node_runs = True
            await self._stack.enter_async_context(self.names["app"].node(concurrency=20))
        self._printed.clear()
        await self._run(block.shown, path)
        if block.check is not None:
            await self._run(block.check, path)
        promises = _promises(block.shown)
        printed = {line: "\n".join(self._printed[line]) for line in promises}
        assert printed == promises, f"{block.place}: printed {printed}, promised {promises}"

    async def _run(self, code: Code, path: str) -> None:
        tree = ast.increment_lineno(ast.parse(code.text, path), code.line - 1)
        compiled = compile(tree, path, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if compiled.co_flags & inspect.CO_COROUTINE:
            await eval(compiled, self.names)
        else:
            # Off the event loop, so that blocking code may block.
            await asyncio.to_thread(exec, compiled, self.names)

    def _print(self, *values: object) -> None:
        line = sys._getframe(1).f_lineno
        self._printed[line].append(" ".join(str(value) for value in values))

    def _close_blocking_face(self, app: App) -> None:
        if app._loop_thread._loop is not None:
            app._loop_thread.call(app.close())


def _promises(code: Code) -> dict[int, str]:
    """Return what the comments behind `print(...)` say, by line."""
    tokens = tokenize.generate_tokens(io.StringIO(code.text).readline)
    return {
        token.start[0] + code.line - 1: token.string.lstrip("# ")
        for token in tokens
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("print(")
    }
