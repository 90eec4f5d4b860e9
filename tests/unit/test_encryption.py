"""If these fail, encrypted jobs stand in the clear somewhere, or cannot be run by those who may."""

import asyncio
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from detent import (
    App,
    BatchItem,
    ConfigError,
    Job,
    JobContext,
    JobFailed,
    PayloadTooLarge,
    Retry,
    State,
)
from detent.config import Config, EncryptionConfig, LimitsConfig
from detent.errors import KeyMismatch, KeyUnavailable, SealError
from detent.events import JobDied, JobRetrying, SealTrouble
from detent.model.envelope import MARKER, is_sealed, read_envelope
from detent.model.job import JobFilter, JobInfo, NewJob
from detent.spi.sealing import Key
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

OLD, NEW = b"1" * 32, b"2" * 32
SECRET = "4111-1111"


def settings(*, enabled: bool = True, keys: dict[str, bytes] | None = None) -> Config:
    return Config(encryption=EncryptionConfig(enabled=enabled, keys=keys or {"k1": OLD}))


def with_keys(stage: Stage, config: Config) -> App:
    """Return another app on the same store with other settings."""
    stage.config = config
    return stage.new_app()


async def stored(stage: Stage, job_id: UUID) -> JobInfo:
    """Return a job as it stands in the tables."""
    (job,) = await stage.store.get_jobs([job_id])
    return job


async def sealed_job(app: App, call: Any) -> NewJob:
    encrypted = call.task.options_declared.encrypted
    return await app._protection.admit(app.client.prepare(call).job, encrypted)


class Vault:
    """A provider that can be away, or say nothing."""

    def __init__(self) -> None:
        self.away = self.silent = False

    async def current(self) -> Key:
        if self.away:
            raise ConnectionError("the vault is closed")
        if self.silent:
            await asyncio.sleep(3_600)
        return Key("v1", NEW)

    async def find(self, key_id: str) -> Key | None:
        return await self.current() if key_id == "v1" else None


@in_virtual_time
async def test_nothing_of_an_encrypted_job_is_stored_in_the_clear() -> None:
    stage = Stage(settings())

    @stage.app.task(name="pay", retry=Retry(max_attempts=2, delay=timedelta(seconds=1)))
    async def pay(ctx: JobContext, card: str) -> str:
        if ctx.attempt == 1:
            raise ValueError(f"{card} was refused, {ctx.params}")
        return f"charged {card}"

    async with stage.node():
        job = await pay.options(params={"pin": SECRET}).enqueue(SECRET)
        assert await job.result(timeout=60) == f"charged {SECRET}"
    row = await stored(stage, job.id)
    (failed,) = await stage.store.attempts(job.id)
    for value in (row.args, row.params, row.result, failed.error):
        assert is_sealed(value)
    assert SECRET not in repr(stage.tables)
    shown = await stage.app.jobs.get(job.id)
    assert (shown.args, shown.result) == (f'{{"card":"{SECRET}"}}'.encode(), row_text(SECRET))
    assert shown.params == f'{{"pin":"{SECRET}"}}'.encode()
    (attempt,) = await stage.app.jobs.attempts(job.id)
    assert SECRET.encode() in (attempt.error or b"")
    (listed,) = await stage.app.jobs.list()
    assert listed == shown


def row_text(secret: str) -> bytes:
    return f'"charged {secret}"'.encode()


@in_virtual_time
async def test_what_is_told_of_an_encrypted_job_does_not_quote_its_error() -> None:
    stage = Stage(settings())

    @stage.app.task(name="pay", retry=Retry(max_attempts=2, delay=timedelta(seconds=1)))
    async def pay(card: str) -> None:
        raise ValueError(f"{card} was refused")

    async with stage.node():
        job = await pay.enqueue(SECRET)
        with pytest.raises(JobFailed, match=f"ValueError: {SECRET} was refused"):
            await job.result(timeout=60)
    told = [event.error for event in stage.told(JobRetrying)]
    told += [event.error for event in stage.told(JobDied)]
    assert told == ["ValueError: <encrypted>"] * 2


@in_virtual_time
async def test_a_result_committed_with_a_transaction_is_sealed_too() -> None:
    stage = Stage(settings())

    @stage.app.task(name="pay")
    async def pay(ctx: JobContext, card: str) -> None:
        ctx.set_result(card)
        async with ctx.transaction():
            pass

    async with stage.node():
        job: Job[Any] = await pay.enqueue(SECRET)
        assert await job.result(timeout=60) == SECRET
    assert is_sealed((await stored(stage, job.id)).result)


@in_virtual_time
async def test_without_keys_a_job_can_be_looked_at_and_nothing_more() -> None:
    stage = Stage(settings())

    @stage.app.task(name="pay", retry=Retry(max_attempts=1))
    async def pay(card: str) -> str:
        if not card:
            raise ValueError("no card")
        return card

    async with stage.node():
        job, failing = await pay.options(params={"a": 1}).enqueue(SECRET), await pay.enqueue("")
        await job.result(timeout=60)
        with pytest.raises(JobFailed):
            await failing.result(timeout=60)
    stranger = with_keys(stage, Config())
    shown = await stranger.jobs.get(job.id)
    words = b'"<encrypted with key k1>"'
    assert (shown.args, shown.params, shown.result) == (words, words, words)
    with pytest.raises(SealError, match=r"result of job .*<encrypted with key k1>, and no keys"):
        await stranger.jobs.result(job.id, 5)
    with pytest.raises(JobFailed, match="Encrypted: <encrypted with key k1>"):
        await stranger.jobs.result(failing.id, 5)


@in_virtual_time
async def test_a_task_can_be_encrypted_alone_or_be_left_out() -> None:
    stage = Stage(settings(enabled=False))

    @stage.app.task(name="secret", encrypted=True)
    async def secret(card: str) -> str:
        return card

    @stage.app.task(name="plain")
    async def plain(card: str) -> str:
        return card

    async with stage.node():
        for task in (secret, plain):
            job = await task.enqueue(SECRET)
            assert await job.result(timeout=60) == SECRET
            row = await stored(stage, job.id)
            assert [is_sealed(row.args), is_sealed(row.result)] == [task is secret] * 2
    everything = with_keys(stage, settings())

    @everything.task(name="public", encrypted=False)
    async def public(name: str) -> None: ...

    assert not is_sealed((await stored(stage, (await public.enqueue("Ada")).id)).args)


@in_virtual_time
async def test_many_jobs_and_batches_are_encrypted_like_one() -> None:
    stage, seen = Stage(settings()), list[str]()

    @stage.app.task(name="pay", batch=10)
    async def pay(items: list[BatchItem[str]]) -> list[str]:
        seen.extend(item.value for item in items)
        return [item.value for item in items]

    async with stage.node():
        jobs = await stage.app.enqueue_many([pay.bind(f"{SECRET}-{n}") for n in range(3)])
        results = [await job.result(timeout=60) for job in jobs]
    assert results == seen == [f"{SECRET}-{n}" for n in range(3)]
    for job in jobs:
        row = await stored(stage, job.id)
        assert is_sealed(row.args)
        assert is_sealed(row.result)


@pytest.mark.parametrize("how", ["altered", "moved", "cut"])
@in_virtual_time
async def test_what_was_tampered_with_fails_at_once_and_says_so(how: str) -> None:
    stage = Stage(settings())

    @stage.app.task(name="pay", retry=Retry(max_attempts=5))
    async def pay(card: str) -> None:
        raise AssertionError("it must not run")

    job = await sealed_job(stage.app, pay.bind(SECRET))
    other = await sealed_job(stage.app, pay.bind("another"))
    args = {
        "altered": job.args[:-1] + bytes([job.args[-1] ^ 1]),
        "moved": other.args,
        "cut": job.args[:20],
    }[how]
    await stage.store.enqueue_jobs([job._replace(args=args)])
    async with stage.node():
        with pytest.raises(JobFailed, match="SealBroken: the encrypted args of job"):
            await stage.app.jobs.result(job.id, 60)
    row = await stored(stage, job.id)
    assert row.attempt == 1
    assert b"SealBroken" in (row.error or b""), "for all to read"


@in_virtual_time
async def test_a_newer_envelope_is_left_for_a_newer_node() -> None:
    stage = Stage(settings())

    @stage.app.task(name="pay")
    async def pay(card: str) -> None:
        raise AssertionError("it must not run")

    job = await sealed_job(stage.app, pay.bind(SECRET))
    newer = MARKER + bytes([2]) + job.args[len(MARKER) + 1 :]
    await stage.store.enqueue_jobs([job._replace(args=newer)])
    async with stage.node():
        await asyncio.sleep(100)
    row = await stored(stage, job.id)
    assert (row.state, row.attempt, row.error) == (State.PENDING, 1, None)
    told = stage.told(SealTrouble)
    assert len(told) == 4, "now and every half minute"
    assert "version 2" in told[0].error


@pytest.mark.parametrize("keys", [None, {"k9": NEW}], ids=["no keys", "other keys"])
@in_virtual_time
async def test_a_node_without_the_key_leaves_the_job_to_one_that_has_it(
    keys: dict[str, bytes] | None,
) -> None:
    stage = Stage(settings())

    def declare(app: App) -> Any:
        @app.task(name="pay")
        async def pay(card: str) -> str:
            return card

        return pay

    job = await declare(stage.app).enqueue(SECRET)
    config = Config() if keys is None else settings(keys=keys)
    stranger = with_keys(stage, config)
    declare(stranger)
    async with stranger.node():
        await asyncio.sleep(10)
    assert "'k1', which is not known here" in stage.told(SealTrouble)[0].error
    async with stage.node():
        assert await job.result(timeout=60) == SECRET
    assert (await stored(stage, job.id)).attempt == 1


@in_virtual_time
async def test_after_a_new_key_old_jobs_run_and_new_values_are_sealed_with_it() -> None:
    stage = Stage(settings())

    def declare(app: App) -> Any:
        @app.task(name="pay")
        async def pay(card: str) -> str:
            return card

        return pay

    job = await declare(stage.app).enqueue(SECRET)
    rotated = with_keys(stage, settings(keys={"k1": OLD, "k2": NEW}))
    declare(rotated)
    async with rotated.node():
        assert await rotated.jobs.result(job.id, 60) == SECRET
    row = await stored(stage, job.id)
    assert read_envelope(row.args).key_id == "k1"
    assert read_envelope(row.result or b"").key_id == "k2"
    # An operator's retry gives the same id, and so the same place, a new life.
    await rotated.jobs.retry(job.id)
    async with rotated.node():
        assert await rotated.jobs.result(job.id, 60) == SECRET


@in_virtual_time
async def test_a_provider_that_is_away_costs_a_job_time_but_no_attempt() -> None:
    stage, vault = Stage(), Vault()
    stage.app.encryption(provider=vault)

    @stage.app.task(name="pay", encrypted=True)
    async def pay(card: str) -> str:
        return card

    job = await pay.enqueue(SECRET)
    stage.app.encryption(provider=vault)  # forgets what it knew
    vault.away = True
    async with stage.node():
        with pytest.raises(KeyUnavailable, match="ConnectionError"):
            await pay.enqueue(SECRET)
        await asyncio.sleep(45)
        vault.away = False
        assert await job.result(timeout=60) == SECRET
    assert (await stored(stage, job.id)).attempt == 1
    assert len(stage.told(SealTrouble)) == 2
    assert len(await stage.store.list_jobs(JobFilter(), 10)) == 1, "nothing half stored"


@in_virtual_time
async def test_so_it_does_for_the_jobs_of_a_batch() -> None:
    stage, vault = Stage(), Vault()
    stage.app.encryption(provider=vault)

    @stage.app.task(name="pay", encrypted=True, batch=10)
    async def pay(items: list[BatchItem[str]]) -> list[str]:
        return [item.value for item in items]

    jobs = await stage.app.enqueue_many([pay.bind(f"{SECRET}-{n}") for n in range(3)])
    stage.app.encryption(provider=vault)  # forgets what it knew
    vault.away = True
    async with stage.node():
        await asyncio.sleep(45)
        assert len(stage.told(SealTrouble)) == 6
        vault.away = False
        assert [await job.result(timeout=60) for job in jobs] == [f"{SECRET}-{n}" for n in range(3)]
    assert {(await stored(stage, job.id)).attempt for job in jobs} == {1}


@in_virtual_time
async def test_many_jobs_wait_for_a_silent_provider_together() -> None:
    stage, vault = Stage(), Vault()
    stage.app.encryption(provider=vault)

    @stage.app.task(name="pay", encrypted=True, batch=20)
    async def pay(items: list[BatchItem[str]]) -> None: ...

    jobs = await stage.app.enqueue_many([pay.bind(f"{SECRET}-{n}") for n in range(20)])
    stage.app.encryption(provider=vault)  # forgets what it knew
    vault.silent, begun = True, stage.now
    shown = await stage.app.jobs.list()
    assert {job.args for job in shown} == {b'"<encrypted with key v1>"'}
    assert stage.now - begun < 15, "a list is not worth waiting for once per job"
    begun = stage.now
    async with stage.node():
        await stage.until(lambda: len(stage.told(SealTrouble)) == len(jobs))
        assert stage.now - begun < 15, "nor does a batch occupy its slot that long"
        await asyncio.sleep(1)
        assert {(await stored(stage, job.id)).attempt for job in jobs} == {1}


@in_virtual_time
async def test_an_error_of_the_users_own_that_looks_like_ours_is_an_ordinary_failure() -> None:
    stage = Stage(settings())

    @stage.app.task(name="pay", retry=Retry(max_attempts=1))
    async def pay() -> None:
        raise KeyUnavailable("of something else")

    async with stage.node():
        with pytest.raises(JobFailed, match="of something else"):
            await (await pay.enqueue()).result(timeout=60)
    assert not stage.told(SealTrouble)


@in_virtual_time
async def test_limits_count_what_is_stored() -> None:
    config = replace(settings(), limits=LimitsConfig(max_payload=100, max_result=100))
    stage = Stage(config)

    @stage.app.task(name="pay", strict_result=True, retry=Retry(max_attempts=1))
    async def pay(card: str) -> str:
        return "x" * 80

    plain = len(stage.app.client.prepare(pay.bind("x" * 80)).job.args)
    assert plain < 100
    with pytest.raises(PayloadTooLarge, match="the arguments, encrypted, is"):
        await pay.enqueue("x" * 80)
    with pytest.raises(PayloadTooLarge, match="params, encrypted, is"):
        await pay.options(params={"a": "x" * 80}).enqueue("x")
    async with stage.node():
        with pytest.raises(JobFailed, match="the result cannot be stored"):
            await (await pay.enqueue("x")).result(timeout=60)


@pytest.mark.parametrize("enabled", [True, False], ids=["app", "task"])
@in_virtual_time
async def test_encryption_without_keys_is_refused_where_it_would_not_happen(enabled: bool) -> None:
    stage = Stage(Config(encryption=EncryptionConfig(enabled=enabled)))

    @stage.app.task(name="pay", encrypted=None if enabled else True)
    async def pay(card: str) -> None: ...

    with pytest.raises(ConfigError, match="there are no keys; set DETENT_ENCRYPTION_KEYS"):
        await pay.enqueue(SECRET)
    with pytest.raises(ConfigError, match="there are no keys; set DETENT_ENCRYPTION_KEYS"):
        async with stage.node():
            pass
    assert not await stage.store.list_jobs(JobFilter(), 10)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "detent.sealing", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    app = App("memory://", config=settings())
    with pytest.raises(ConfigError, match=r"pip install 'detent\[encryption\]'"):
        _ = app.client


@pytest.mark.parametrize("wrong", [None, 5, Key("k1", OLD), Vault])
@in_virtual_time
async def test_what_is_no_provider_is_refused(wrong: Any) -> None:
    words = r"provider=.*: has no current\(\) and find\(\)"
    with pytest.raises(ConfigError, match=words) as raised:
        Stage().app.encryption(provider=wrong)
    assert OLD.decode() not in str(raised.value)


@pytest.mark.parametrize("wrong", ["no", "yes", 1, 0])
@in_virtual_time
async def test_whether_a_task_is_encrypted_is_a_yes_or_a_no(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"encrypted = .*: must be True or False"):
        Stage(settings()).app.task(encrypted=wrong)(print)


@in_virtual_time
async def test_a_key_of_an_encrypted_job_is_compared_and_tells_nothing() -> None:
    stage = Stage(settings())

    def declare(app: App) -> Any:
        @app.task(name="pay")
        async def pay(card: str) -> None: ...

        return pay

    pay = declare(stage.app)
    first = await pay.options(key="order-1").enqueue(SECRET)
    (kept,) = (key.digest for key in stage.store.tables.keys.values())
    assert is_sealed(kept), "few values would be found by trying"
    # Another key seals from now on, the old one still opens.
    pay = declare(with_keys(stage, settings(keys={"k1": OLD, "k2": NEW})))
    assert (await pay.options(key="order-1").enqueue(SECRET)).id == first.id
    with pytest.raises(KeyMismatch):
        await pay.options(key="order-1").enqueue("other")
    pay = declare(with_keys(stage, settings(keys={"k2": NEW})))
    given = await pay.options(key="order-1").enqueue("other")
    assert given.id == first.id, "nothing can be compared without the key"
