"""If these fail, what nobody should read stands in stored errors, in logs or in views."""

import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from detent import ConfigError, JobFailed, Retry
from detent.config import Config, RedactionConfig
from detent.errors import RemoteError
from detent.events import HookFailed, JobDied, JobRetrying
from detent.logs import attach
from detent.model.failure import Failure, describe, failure_of
from detent.model.redaction import Redaction
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

LEAK = "cannot reach postgresql://ada:s3cret@db/shop with password=s3cret"
CLEAN = "cannot reach postgresql://ada:***@db/shop with password=***"
TWICE = Retry(max_attempts=2, delay=timedelta(seconds=1))


async def fail(stage: Stage) -> None:
    """Run a job whose error tells too much."""

    @stage.app.task(name="work", retry=TWICE)
    async def work() -> None:
        raise ConnectionError(LEAK)

    async with stage.node():
        job = await work.enqueue()
        with pytest.raises(JobFailed):
            await job.result(60)
    stage.job = await stage.app.jobs.get(job.id)  # type: ignore[attr-defined]
    stage.tries = await stage.app.jobs.attempts(job.id)  # type: ignore[attr-defined]


def texts(stage: Stage) -> list[str]:
    """Return all that was stored and told of the failures."""
    errors = [stage.job.error, *(each.error for each in stage.tries)]  # type: ignore[attr-defined]
    told = [event.error for event in stage.told(JobRetrying)]
    told += [event.error for event in stage.told(JobDied)]
    return [error.decode() for error in errors] + told


@in_virtual_time
async def test_secrets_are_taken_out_of_errors_before_they_are_stored_or_told() -> None:
    stage = Stage()
    await fail(stage)
    assert len(texts(stage)) >= 4
    for text in texts(stage):
        assert "s3cret" not in text
        assert "ConnectionError" in text
    stored = json.loads(stage.job.error)  # type: ignore[attr-defined]
    assert stored["message"] == CLEAN
    assert CLEAN in stored["traceback"]


@in_virtual_time
async def test_it_can_be_switched_off() -> None:
    stage = Stage(Config(redaction=RedactionConfig(secrets=False)))
    await fail(stage)
    assert all("s3cret" in text for text in texts(stage))


@in_virtual_time
async def test_an_application_can_do_more() -> None:
    stage = Stage()

    @stage.app.sanitizer
    def shorten(failure: Failure) -> Failure:
        assert "s3cret" not in failure.message, "what the settings say is done before"
        return failure._replace(message="see the vault", traceback="")

    await fail(stage)
    assert json.loads(stage.job.error) == {  # type: ignore[attr-defined]
        "type": "ConnectionError",
        "message": "see the vault",
        "traceback": "",
    }
    assert stage.told(JobDied)[0].error == "ConnectionError: see the vault"


@pytest.mark.parametrize(
    "answer",
    [
        LookupError("s3cret"),
        SystemExit(1),
        Failure("a", "b", 3),  # type: ignore[arg-type]
        ("a", "b", "c"),
    ],
)
@in_virtual_time
async def test_a_sanitizer_that_breaks_keeps_nothing_but_the_type(answer: object) -> None:
    stage = Stage()

    @stage.app.sanitizer
    def broken(failure: Failure) -> Failure:
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]

    await fail(stage)
    stored = json.loads(stage.job.error)  # type: ignore[attr-defined]
    assert stored["type"] == "ConnectionError"
    assert stored["message"].startswith("<its message was not kept: the sanitizer raised")
    assert stored["traceback"] == ""


def test_a_secret_is_found_before_the_text_is_cut() -> None:
    clean = Redaction().clean
    padding = "x" * 1_980
    error = ValueError(f"{padding} postgresql://ada:s3cret-that-is-long@db/shop")
    assert "s3cret" not in failure_of(error, clean).message
    assert "s3cret" not in describe(ValueError("x" * 470 + " token=s3cret" + "x" * 90), clean)


def test_errors_of_child_processes_are_cleaned_too() -> None:
    error = RemoteError(Failure("ValueError", LEAK, f"Traceback\n{LEAK}"), "builtins.ValueError")
    assert failure_of(error, Redaction().clean) == ("ValueError", CLEAN, f"Traceback\n{CLEAN}")
    assert describe(error, Redaction().clean) == f"ValueError: {CLEAN}"


def test_log_lines_that_quote_errors_are_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    logger = logging.getLogger("detent.test_sanitizer")
    attach(stage.app.bus, logger, Redaction().clean)
    with caplog.at_level(logging.WARNING, logger.name):
        stage.app.bus.emit(HookFailed("on_start", LEAK))
    assert CLEAN in caplog.text
    assert "s3cret" not in caplog.text


@in_virtual_time
async def test_views_hide_the_fields_that_they_are_told_to() -> None:
    stage = Stage(Config(redaction=RedactionConfig(fields=("card", "PIN"))))

    @stage.app.task(name="pay")
    async def pay(card: str, amount: int) -> dict[str, object]:
        return {"paid": amount, "from": [{"card": card}]}

    async with stage.node():
        job = await pay.options(params={"pin": 1234, "shop": "x"}).enqueue("4111", 5)
        assert await job.result(60) == {"paid": 5, "from": [{"card": "4111"}]}, "for programs"
    for shown in (await job.info(), (await stage.app.jobs.list())[0]):
        assert json.loads(shown.args) == {"card": "***", "amount": 5}
        assert json.loads(shown.params or b"") == {"pin": "***", "shop": "x"}
        assert json.loads(shown.result or b"") == {"paid": 5, "from": [{"card": "***"}]}


async def clean_slowly(failure: Failure) -> Failure:
    return failure


@pytest.mark.parametrize("wrong", [None, 5, "x", lambda: None, clean_slowly])
@in_virtual_time
async def test_what_is_no_sanitizer_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"app.sanitizer\(.*\): must be a function"):
        Stage().app.sanitizer(wrong)
