"""If these fail, a command stores or prints in the clear what an app keeps secret."""

import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from detent.model.envelope import is_sealed
from detent.model.job import JobFilter, JobInfo
from tests.cli.conftest import Detent
from tests.cli.stores import Program

SECRET = "4111-1111"
KEYS = "k1:" + base64.b64encode(b"1" * 32).decode()
MODULE = """
from detent import App
from detent.spi.sealing import Key

app = App()

@app.task(name="pay", encrypted=True)
async def pay(card: str) -> str:
    return card

class Vault:
    async def current(self):
        return Key("v1", b"2" * 32)

    async def find(self, key_id):
        return await self.current() if key_id == "v1" else None

guarded = App()
guarded.encryption(provider=Vault())

@guarded.task(name="pay", encrypted=True)
async def pay_guarded(card: str) -> str:
    return card
"""
BACKFILL = ("backfill", "nightly", "--from", "2h", "--to", "1h", "--limit", "100")

Call = Callable[..., Result]


@pytest.fixture
def run(detent: Detent, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    (tmp_path / "shop_secrets.py").write_text(MODULE)
    monkeypatch.delitem(sys.modules, "shop_secrets", raising=False)

    def run(*arguments: str, keys: str | None = None) -> Result:
        # Imported with other keys, it is another app.
        monkeypatch.delitem(sys.modules, "shop_secrets", raising=False)
        environ = {"DETENT_URL": store_url}
        if keys is not None:
            environ["DETENT_ENCRYPTION_KEYS"] = keys
        return detent("schedules", *arguments, **environ)

    return run


def stored_jobs(program: Program) -> list[JobInfo]:
    return program.call(lambda app: app.store.list_jobs(JobFilter(), 100))


def create(run: Call, app: str, keys: str | None = None) -> Result:
    arguments = json.dumps({"card": SECRET})
    words = ("create", f"shop_secrets:{app}", "nightly", "pay", arguments, "--every", "10m")
    return run(*words, keys=keys)


@pytest.mark.parametrize("words", [("trigger", "nightly"), BACKFILL], ids=["trigger", "backfill"])
def test_a_schedule_is_fired_encrypted_or_not_at_all(
    run: Call, store_url: str, words: tuple[str, ...]
) -> None:
    program = Program(store_url)
    refused = create(run, "app")
    assert refused.exit_code == 2
    assert "there are no keys; set DETENT_ENCRYPTION_KEYS" in refused.stderr
    assert create(run, "app", KEYS).output == "nightly\tcreated\n"
    refused = run(*words)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == (
        "detent: error: the args of the schedule 'nightly': <encrypted with key k1>, and no keys "
        "are set here; give the keys in DETENT_ENCRYPTION_KEYS or [encryption] keys, or the app "
        "that has them with --app\n"
    )
    assert stored_jobs(program) == []
    assert run(*words, keys=KEYS).exit_code == 0
    jobs = stored_jobs(program)
    assert jobs
    assert all(is_sealed(job.args) for job in jobs)


def test_keys_of_a_provider_come_with_the_app(run: Call, store_url: str) -> None:
    program = Program(store_url)
    assert create(run, "guarded").exit_code == 0
    assert run("trigger", "nightly").exit_code == 1
    assert run("trigger", "nightly", "--app", "shop_secrets:guarded").exit_code == 0
    assert run(*BACKFILL, "--app", "shop_secrets:guarded").exit_code == 0
    jobs = stored_jobs(program)
    assert len(jobs) == 7
    assert all(is_sealed(job.args) for job in jobs)
    wrong = run("trigger", "nightly", "--app", "shop_secrets:nobody")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "there is no 'nobody'" in wrong.stderr


def test_who_has_the_keys_sees_the_arguments_and_others_see_that_there_are_some(
    run: Call, store_url: str
) -> None:
    create(run, "app", KEYS)
    shown = json.loads(run("show", "nightly", "--json", keys=KEYS).output)
    assert shown["args"] == {"card": SECRET}
    for words in (("show", "nightly", "--json"), ("update", "nightly", "--jitter", "5s", "--json")):
        hidden = json.loads(run(*words).output)
        assert hidden["args"] == "<encrypted with key k1>"
    (info,) = Program(store_url).call(lambda app: app.store.list_schedules())
    assert is_sealed(info.schedule.firing.args)


def test_params_are_changed_encrypted_or_not_at_all(run: Call, store_url: str) -> None:
    program = Program(store_url)
    create(run, "app", KEYS)
    update = ("update", "nightly", "--params", json.dumps({"pin": SECRET}))
    refused = run(*update)
    assert refused.exit_code == 2
    assert "there are no keys" in refused.stderr
    assert run(*update, keys=KEYS).exit_code == 0
    (info,) = program.call(lambda app: app.store.get_schedules(["nightly"]))
    assert is_sealed(info.schedule.firing.params)
    shown = json.loads(run("show", "nightly", "--json", keys=KEYS).output)
    assert shown["params"] == {"pin": SECRET}
