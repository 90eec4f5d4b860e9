"""If these fail, a page says what the code once was. Write the tables anew: tools/reference.py."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

from detent.model.state import diagram
from detent.spi import store as spi
from detent.stores.postgres.pooled import PLANNER
from tests.docs.blocks import PAGES, ROOT, blocks_of
from tools.reference import pages

INTERNALS = ROOT / "docs" / "internals"
DECISIONS = INTERNALS / "decisions"
PROTOCOLS = {
    name: kind
    for name, kind in vars(spi).items()
    if inspect.isclass(kind) and name.endswith("Store") and name != "Store"
}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_generated_tables_are_up_to_date(page: Path) -> None:
    assert page.read_text() == pages()[page], "run: .venv/bin/python tools/reference.py"


def test_the_diagram_is_the_table_of_states() -> None:
    drawn = [block for block in blocks_of(INTERNALS / "life-of-a-job.md") if block.language]
    assert [block.shown.text for block in drawn] == [f"{diagram()}\n"]


def test_the_life_of_a_job_names_files_that_exist() -> None:
    text = (INTERNALS / "life-of-a-job.md").read_text()
    package = ROOT / "src" / "detent"
    statements = package / "stores" / "postgres" / "sql"
    for name in re.findall(r"`([\w/]+\.(?:py|sql))`", text):
        homes = [package / name, package / "stores" / "postgres" / name, statements / name]
        assert any(home.is_file() for home in homes), name


def test_the_map_of_the_store_has_every_method_and_no_other() -> None:
    named = set(re.findall(r"`(\w+Store)\.(\w+)`", (INTERNALS / "spi.md").read_text()))
    real = {
        (name, method)
        for name, kind in PROTOCOLS.items()
        for method, value in vars(kind).items()
        if inspect.isfunction(value) and not method.startswith("_")
    }
    assert named == real


def test_every_protocol_is_on_the_map() -> None:
    text = (INTERNALS / "spi.md").read_text()
    for module in sorted((ROOT / "src" / "detent" / "spi").glob("*.py")):
        for name, kind in vars(importlib.import_module(f"detent.spi.{module.stem}")).items():
            own = getattr(kind, "__module__", "") == f"detent.spi.{module.stem}"
            if own and getattr(kind, "_is_protocol", False) and name not in SMALL:
                assert f"`{name}`" in text, name


#: What a `Runtime` returns: described there.
SMALL = {"Cancelable", "Thread"}


def test_decisions_are_numbered_and_listed() -> None:
    files = sorted(page.name for page in DECISIONS.glob("0*.md"))
    assert [name[:4] for name in files] == [f"{number:04}" for number in range(1, len(files) + 1)]
    listed = re.findall(r"^- \[(.+)\]\((.+)\)$", (DECISIONS / "README.md").read_text(), re.M)
    assert [target for _, target in listed] == files
    for title, target in listed:
        assert (DECISIONS / target).read_text().startswith(f"# {title}\n")


def test_the_planner_settings_are_those_of_the_code() -> None:
    text = (DECISIONS / "0002-planner-settings.md").read_text()
    assert not [name for name in PLANNER if name not in text]


def test_the_bars_of_the_readme_are_those_of_the_benchmark() -> None:
    bars = importlib.import_module("bench.bars").BARS
    text = (ROOT / "README.md").read_text()
    section = text.partition("<!-- numbers -->")[2].partition("<!-- end of numbers -->")[0]
    shown = re.findall(r"^\| ([^|]+) \| ([≥≤]) ([\d.,]+) \|", section, re.M)
    assert [(what, sign, float(limit.replace(",", ""))) for what, sign, limit in shown] == [
        (bar.what, "≥" if bar.at_least else "≤", bar.limit) for bar in bars
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_knows_the_machine_it_was_written_on(page: Path) -> None:
    assert not re.findall(r"(?<![\w.:/])/(?:work|home|root|usr|tmp)/", page.read_text())
