"""If these fail, the house is losing its plan; each message says what to do about it.

Import directions are import-linter's work (`make check`); here stands what imports cannot say.
"""

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "detent"
MODULES = sorted(PACKAGE.rglob("*.py"))

LINES_PER_MODULE = 400
LINES_PER_FUNCTION = 60
PUBLIC_NAMES = 40

#: The only modules that may catch everything and go on: around a user's code (the task, its
#: error's message, its listener, its module) anything can happen, and a service loop must outlive
#: its worst round. Cleaning up and raising again is free to all.
BROAD_EXCEPT = (
    "_engine/batches.py",
    "_engine/deliver.py",
    "_engine/execute.py",
    "_engine/failure.py",
    "_engine/guards.py",
    "_engine/listen.py",
    "_engine/node.py",
    "_engine/service.py",
    "cli/completion.py",
    "clock.py",
    # Callers who share an insert must not get the errors of each other.
    "coalesce.py",
    "events.py",
    "listeners.py",
    "executors/child.py",
    "executors/thread.py",
    # Whatever a user's object does when it is shown, a log line must not fail a job.
    "lines.py",
    # What a provider raises is told to those who wait for its value.
    "lifetimes.py",
    "model/failure.py",
    # A user's own rule about retries must not lose a job.
    "model/retry.py",
    "sinks/client.py",
    # The error of work that has lost its caller is told to what it leaves behind.
    "stores/postgres/unbroken.py",
    # Whatever an order raises on the thread that carries it out belongs to whoever gave it.
    "stores/sqlite/orders.py",
    "stores/sqlite/writer.py",
)

#: SQLite has one writer at a time, so nothing changes between two statements, and no server, so
#: there are no sessions that outlive a process. What it finds first is a step of lost_claims, its
#: inserts look for known ids themselves, and its claims through gates are wide anyway.
NEEDS_NONE = {
    "after_rescue": ("sqlite",),
    "claim_wide": ("sqlite",),
    "confirm_commits": ("sqlite",),
    "displace_jobs": ("sqlite",),
    "find_lost": ("sqlite",),
    "join_schedule_group": ("sqlite",),
    "known_jobs": ("sqlite",),
    "lock_alerts": ("sqlite",),
    "lock_live": ("sqlite",),
    "lock_unique_key": ("sqlite",),
    "switch_schedule_group": ("sqlite",),
    "waits_of": ("sqlite",),
}

#: Who may speak to `logging`: everybody else emits a typed event.
LOGGING = ("logs/", "cli/", "testing/")

#: Who may use the public face `from detent import App`; below, it would bypass the floors.
PUBLIC_FACE = ("__init__.py", "__main__.py", "cli/", "testing/", "contrib/", "web/")

#: R15: what the engine gets from its Runtime and therefore never takes for itself.
ENGINE_IMPORTS = {"time", "random", "uuid", "threading", "secrets"}
ENGINE_CALLS = {"asyncio.sleep", "asyncio.to_thread"}


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every module a file imports, with the line, as a dotted name."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        # The type of an id is not a way to make one.
        elif (
            isinstance(node, ast.ImportFrom)
            and node.module
            and [alias.name for alias in node.names] != ["UUID"]
        ):
            yield node.lineno, node.module


def within(folder: str) -> list[Path]:
    return [path for path in MODULES if place(path).startswith(folder)]


def refuse(found: list[str], advice: str) -> None:
    if found:
        pytest.fail("\n  ".join([advice, *found]), pytrace=False)


def test_there_is_something_to_check() -> None:
    assert MODULES, f"no modules below {PACKAGE}: the checks in this file would pass for nothing"


def test_a_module_can_be_read_in_one_sitting() -> None:
    sizes = {place(path): len(path.read_text().splitlines()) for path in MODULES}
    refuse(
        [f"{name}: {lines} lines" for name, lines in sizes.items() if lines > LINES_PER_MODULE],
        f"Split by noun or verb; a module has at most {LINES_PER_MODULE} lines:",
    )


def test_a_function_fits_on_a_screen() -> None:
    found = []
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LINES_PER_FUNCTION:
                    found.append(f"{place(path)}:{node.lineno} {node.name}: {lines} lines")
    refuse(found, f"Give the steps names; a function has at most {LINES_PER_FUNCTION} lines:")


def test_modules_are_named_for_an_idea() -> None:
    vague = {"util", "utils", "helper", "helpers", "common", "misc"}
    names = {place(path): place(path).removesuffix(".py").split("/") for path in MODULES}
    found = [name for name, words in names.items() if vague & {w.strip("_") for w in words}]
    refuse(found, "Put it beside its only user, or name the idea it holds:")


def test_public_names_are_few_sorted_and_real() -> None:
    detent = importlib.import_module("detent")
    names = list(detent.__all__)
    assert names == sorted(set(names)), "sort detent.__all__ and name nothing twice"
    missing = [name for name in names if not hasattr(detent, name)]
    refuse(missing, "detent.__all__ promises names that do not exist; import or remove them:")
    assert len(names) <= PUBLIC_NAMES, (
        f"{len(names)} public names, at most {PUBLIC_NAMES}: when in doubt, leave a name out"
    )


def test_every_statement_has_a_user() -> None:
    found = []
    for folder in PACKAGE.glob("stores/*/sql"):
        words = set().union(*(_words(path) for path in folder.parent.rglob("*.py")))
        found += [
            place(statement)
            for statement in sorted(folder.glob("*.sql"))
            if not words & {statement.stem, statement.name}
        ]
    refuse(found, "Nobody in its store names this statement; delete it or fix the name:")


def _words(path: Path) -> set[str]:
    """What a module could name a statement by: `load("claim_jobs")` or `statements.claim_jobs`."""
    words = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
    return words


def test_every_sql_store_has_the_same_statements() -> None:
    folders = {path.parent.name: path for path in PACKAGE.glob("stores/*/sql")}
    names = {store: {sql.stem for sql in path.glob("*.sql")} for store, path in folders.items()}
    everything = set().union(*names.values())
    found = [
        f"{store}: {name}.sql"
        for store, own in sorted(names.items())
        for name in sorted(everything - own)
        if store not in NEEDS_NONE.get(name, ())
    ]
    refuse(found, "One statement, one file in every dialect; these are missing:")


def test_the_engine_takes_time_chance_and_threads_only_from_its_runtime() -> None:
    found = [
        f"{place(path)}:{line} import {name}"
        for path in within("_engine/")
        for line, name in imported(path)
        if name.partition(".")[0] in ENGINE_IMPORTS
    ]
    for path in within("_engine/"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and _waits_by_itself(node.func):
                found.append(f"{place(path)}:{node.lineno} {ast.unparse(node.func)}()")
            elif isinstance(node, ast.ImportFrom) and node.module == "asyncio":
                taken = {f"asyncio.{alias.name}" for alias in node.names} & ENGINE_CALLS
                found += [f"{place(path)}:{node.lineno} {name}" for name in sorted(taken)]
    refuse(found, "Ask the Runtime instead, or the simulation cannot replay a run (R15):")


def _waits_by_itself(function: ast.expr) -> bool:
    """`asyncio.sleep`, `asyncio.to_thread`, and `.time()` of anything that is called a loop."""
    if not isinstance(function, ast.Attribute):
        return False
    return ast.unparse(function) in ENGINE_CALLS or (
        function.attr == "time" and "loop" in ast.unparse(function.value).lower()
    )


def test_the_engine_never_iterates_over_a_set() -> None:
    found = [
        f"{place(path)}:{node.iter.lineno} {ast.unparse(node.iter)}"
        for path in within("_engine/")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension) and _is_set(node.iter)
    ]
    refuse(found, "The order of a set differs between runs; use a dict, a list or sorted() (R15):")


def _is_set(expression: ast.expr) -> bool:
    if isinstance(expression, ast.Call):
        name = expression.func
        if isinstance(name, ast.Name) and name.id in {"list", "tuple", "enumerate", "iter"}:
            return any(_is_set(argument) for argument in expression.args)
        return isinstance(name, ast.Name) and name.id in {"set", "frozenset"}
    if isinstance(expression, ast.BinOp):
        return _is_set(expression.left) or _is_set(expression.right)
    return isinstance(expression, ast.Set | ast.SetComp)


def test_model_needs_nothing_but_the_standard_library() -> None:
    found = []
    for path in within("model/"):
        for line, name in imported(path):
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top != "detent":
                found.append(f"{place(path)}:{line} import {name}")
    refuse(found, "Meaning has no dependencies; translate at the edge (spi, stores, client):")


def test_nobody_below_the_roof_uses_the_public_face() -> None:
    found = []
    for path in MODULES:
        if place(path).startswith(PUBLIC_FACE):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module == "detent":
                names = [alias.name for alias in node.names if not _is_module(alias.name)]
                found += [f"{place(path)}:{node.lineno} from detent import {n}" for n in names]
    refuse(found, "Import from the module that defines it; `detent` itself is for users:")


def _is_module(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()


def test_broad_except_stands_only_where_anything_can_happen() -> None:
    found = [
        f"{place(path)}:{node.lineno}"
        for path in MODULES
        if place(path) not in BROAD_EXCEPT
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler)
        and _is_broad(node.type)
        and not isinstance(node.body[-1], ast.Raise)
    ]
    refuse(found, "Name the errors you expect; who else may catch all is listed in BROAD_EXCEPT:")


def _is_broad(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    if isinstance(caught, ast.Tuple):
        return any(_is_broad(each) for each in caught.elts)
    return ast.unparse(caught).rpartition(".")[2] in {"Exception", "BaseException"}


def test_only_the_command_prints() -> None:
    found = [
        f"{place(path)}:{node.lineno}"
        for path in MODULES
        if not place(path).startswith("cli/")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    refuse(found, "Return a value or emit an event; detent.cli turns it into words:")


def test_only_logs_logs() -> None:
    found = [
        f"{place(path)}:{line}"
        for path in MODULES
        if not place(path).startswith(LOGGING)
        for line, name in imported(path)
        if name.partition(".")[0] == "logging"
    ]
    refuse(found, "Emit a typed event; detent.logs is the one that turns events into lines:")
