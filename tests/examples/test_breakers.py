"""If this fails, the breaker that we show does not stop calls, or does not let them go again."""

from pathlib import Path

from tests.examples.programs import EXAMPLES, run_to_its_end


def test_the_calls_stop_and_go_on(tmp_path: Path) -> None:
    done = run_to_its_end(EXAMPLES / "breakers" / "main.py", tmp_path)
    assert done.stdout.splitlines() == [
        "open: 5 of 5 calls failed (ConnectionError)",
        "half-open: 0 calls since, now 2 trials",
        "closed: all trials passed",
        "45 invoices waited; attempts charged for it: 0",
        "the first 5 were charged in attempt 2",
        "the breaker is closed",
    ]
