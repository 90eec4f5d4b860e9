"""If these fail, a public name cannot be imported, or importing one loads what it must not."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import detent


def names_for_type_checkers() -> dict[str, list[str]]:
    """Return what `detent/__init__.py` shows to type checkers, by module."""
    tree = ast.parse(Path(detent.__file__).read_text())
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {str(node.module): [alias.name for alias in node.names] for node in imports}


def test_both_lists_of_names_are_alike() -> None:
    assert {module: list(names) for module, names in detent._HOMES.items()} == (
        names_for_type_checkers()
    )
    named = {name for names in detent._HOMES.values() for name in names}
    assert named | {"__version__"} == set(detent.__all__)


@pytest.mark.parametrize("name", detent.__all__)
def test_a_name_is_the_one_of_its_home(name: str) -> None:
    home = {name: module for module, names in detent._HOMES.items() for name in names}.get(name)
    if home is not None:
        assert getattr(detent, name) is getattr(import_module(home), name)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    name = "nonsense"
    with pytest.raises(AttributeError, match=f"module 'detent' has no attribute {name!r}"):
        getattr(detent, name)
    assert set(detent.__all__) <= set(dir(detent))


def test_everything_can_be_imported_at_once() -> None:
    code = "from detent import *; App; Retry; __version__"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, detent; print(*[name for name in sys.modules if 'detent' in name])"
    said = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True
    )
    loaded = {name for name in said.stdout.split() if not name.startswith("_")}
    assert loaded == {"detent", "detent.version"}
