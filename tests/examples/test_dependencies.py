"""If this fails, what we show of dependencies is made too often, or not closed."""

from pathlib import Path

from tests.examples.programs import EXAMPLES, run_to_its_end


def test_each_is_made_for_as_long_as_it_is_needed(tmp_path: Path) -> None:
    done = run_to_its_end(EXAMPLES / "dependencies" / "main.py", tmp_path)
    assert done.stdout.splitlines() == [
        "the pool opens",
        "session 1 commits",
        "acme paid 100 at db.example.com",
        "session 2 rolls back",
        "cannot pay -1",
        "report 1 from db.example.com: sales",
        "report 2 from db.example.com: stock",
        "the pool closes after 2 sessions",
        "in a test:",
        "a test paid 7 at nowhere",
        "report 1 from by hand: costs",
    ]
