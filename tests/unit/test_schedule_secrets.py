"""If these fail, what an encrypted task is called with stands in the clear in its schedule."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from detent import App, ConfigError, State
from detent._engine.seal import sealed_plans
from detent.config import Config, EncryptionConfig, LimitsConfig
from detent.config.protection import RedactionConfig
from detent.errors import KeyUnavailable, PayloadTooLarge, SealBroken, SealError
from detent.events import ScheduleDeclared, ScheduleFired, ScheduleTrouble
from detent.firing_seal import FiringSeal
from detent.model.envelope import is_sealed, read_envelope
from detent.model.job import JobFilter
from detent.model.schedule import FirePlan, Firing, Overlap, PlannedSlot, ScheduleInfo, SlotState
from detent.spi.sealing import Key
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import START, in_virtual_time

OLD, NEW = b"1" * 32, b"2" * 32
SECRET = "4111-1111"
HOUR = timedelta(hours=1)


def settings(*, enabled: bool = True, **keys: bytes) -> Config:
    return Config(encryption=EncryptionConfig(enabled=enabled, keys=keys or {"k1": OLD}))


class Vault:
    """A provider that can be away, and knows how often it was asked."""

    def __init__(self) -> None:
        self.away = False
        self.asked = 0

    async def current(self) -> Key:
        self.asked += 1
        if self.away:
            raise ConnectionError("the vault is closed")
        return Key("v1", NEW)

    async def find(self, key_id: str) -> Key | None:
        return await self.current() if key_id == "v1" else None


def declare(app: App, *, encrypted: bool | None = None, scheduled: bool = True) -> Any:
    """Give an app a task with a secret, and a schedule that fires it."""

    async def pay(card: str) -> str:
        return card

    task = app.task(name="pay", encrypted=encrypted)(pay)
    if scheduled:
        every = timedelta(seconds=10)
        app.schedule(every, name="often", args=[SECRET], params={"pin": SECRET})(task)
    return task


async def stored(stage: Stage, name: str = "often") -> ScheduleInfo:
    """Return a schedule as it stands in the tables."""
    (info,) = await stage.store.get_schedules([name])
    return info


async def firing(stage: Stage, name: str = "often") -> Firing:
    return (await stored(stage, name)).schedule.firing


def another(stage: Stage, config: Config) -> App:
    """Return another app on the same store with other settings."""
    stage.config = config
    return stage.new_app()


# At rest


@pytest.mark.parametrize("by_task", [True, False], ids=["task", "app"])
@in_virtual_time
async def test_a_declared_schedule_and_its_jobs_are_encrypted(by_task: bool) -> None:
    stage = Stage(settings(enabled=not by_task))
    declare(stage.app, encrypted=True if by_task else None)
    async with stage.node():
        await asyncio.sleep(35)
        by_hand = await stage.app.schedules.trigger_now("often")
        assert await by_hand.result(timeout=60) == SECRET
        fired = await stage.app.jobs.list(state="succeeded")
    assert SECRET not in repr(stage.tables)
    assert len(fired) >= 3
    for job in fired:
        (row,) = await stage.store.get_jobs([job.id])
        assert is_sealed(row.args)
        assert is_sealed(row.params)
        assert job.result == f'"{SECRET}"'.encode()
        assert job.params == f'{{"pin":"{SECRET}"}}'.encode()


@in_virtual_time
async def test_what_an_operator_makes_and_edits_is_encrypted_and_seen_by_those_with_keys() -> None:
    stage = Stage(settings(enabled=False))
    declare(stage.app, encrypted=True, scheduled=False)
    made = await stage.app.schedules.create("once", HOUR, "pay", args=["4222"])
    assert made.schedule.firing.args == b'{"card":"4222"}'
    assert made == await stage.app.schedules.get("once")
    edited = await stage.app.schedules.update("once", args=[SECRET], params={"pin": SECRET})
    assert edited.schedule.firing.args == f'{{"card":"{SECRET}"}}'.encode()
    assert [edited] == await stage.app.schedules.list()
    assert SECRET not in repr(stage.tables)
    before = await firing(stage, "once")
    await stage.app.schedules.update("once", overlap="skip", tags=["x"])
    assert replace(await firing(stage, "once"), tags=()) == before, "sealed once is enough"
    fired = await stage.app.schedules.backfill("once", START - 3 * HOUR, START)
    rows = await stage.store.get_jobs([each.job for each in fired if each.job])
    assert [is_sealed(row.args) for row in rows] == [True] * 3
    jobs = [await stage.app.jobs.get(row.id) for row in rows]
    assert {job.args for job in jobs} == {f'{{"card":"{SECRET}"}}'.encode()}


@in_virtual_time
async def test_without_keys_nothing_is_stored() -> None:
    stage = Stage()
    declare(stage.app, encrypted=True, scheduled=False)
    with pytest.raises(ConfigError, match="there are no keys"):
        await stage.app.schedules.create("once", HOUR, "pay", args=[SECRET])
    assert await stage.store.list_schedules() == []


@in_virtual_time
async def test_a_task_that_says_no_stays_readable() -> None:
    stage = Stage(settings())
    declare(stage.app, encrypted=False)
    async with stage.node():
        await asyncio.sleep(15)
    assert SECRET.encode() in (await firing(stage)).args
    (job,) = await stage.store.list_jobs(JobFilter(), 1)
    assert SECRET.encode() in job.args
    assert SECRET in repr(stage.tables), "else the other tests would prove nothing"


@in_virtual_time
async def test_an_envelope_larger_than_the_limit_is_refused() -> None:
    config = replace(settings(), limits=LimitsConfig(max_payload=1_024))
    stage = Stage(config)
    declare(stage.app, scheduled=False)
    with pytest.raises(PayloadTooLarge, match="the arguments, encrypted,"):
        await stage.app.schedules.create("once", HOUR, "pay", args=["x" * 1_000])
    assert await stage.store.list_schedules() == []


@in_virtual_time
async def test_hidden_fields_are_hidden_in_schedules_too() -> None:
    stage = Stage(Config(redaction=RedactionConfig(fields=("card",))))
    declare(stage.app, scheduled=False)
    made = await stage.app.schedules.create("once", HOUR, "pay", args=[SECRET])
    (listed,) = await stage.app.schedules.list()
    for info in (made, listed, await stage.app.schedules.get("once")):
        assert SECRET not in repr(info)
    await stage.app.schedules.update("once", overlap="skip")
    async with stage.node():
        job = await stage.app.schedules.trigger_now("once")
        assert await job.result(60) == SECRET, "hidden, not gone"


# Declaring again


@in_virtual_time
async def test_a_restart_changes_nothing_and_a_new_key_only_the_envelope() -> None:
    stage = Stage(settings(k1=OLD))
    declare(stage.app)
    async with stage.node():
        pass
    first = await stored(stage)
    again = another(stage, settings(k1=OLD))
    declare(again)
    async with stage.node(again):
        pass
    assert await stored(stage) == first
    assert len(stage.told(ScheduleDeclared)) == 1
    rotated = another(stage, settings(k1=OLD, k2=NEW))
    declare(rotated)
    async with stage.node(rotated):
        pass
    assert read_envelope((await firing(stage)).args).key_id == "k2"
    assert read_envelope((await firing(stage)).params or b"").key_id == "k2"
    assert (await stored(stage)).next_fire == first.next_fire


@in_virtual_time
async def test_what_operators_made_is_sealed_when_its_task_becomes_secret_or_keys_change() -> None:
    stage = Stage()
    declare(stage.app, scheduled=False)
    await stage.app.schedules.create("once", HOUR, "pay", args=[SECRET])
    assert not is_sealed((await firing(stage, "once")).args)
    for config, key_id in [(settings(k1=OLD), "k1"), (settings(k1=OLD, k2=NEW), "k2")]:
        app = another(stage, config)
        declare(app, scheduled=False)
        async with stage.node(app):
            await asyncio.sleep(5)
        assert read_envelope((await firing(stage, "once")).args).key_id == key_id
    only_new = another(stage, settings(k2=NEW))
    declare(only_new, scheduled=False)
    assert SECRET in repr(await only_new.schedules.get("once"))


@in_virtual_time
async def test_encryption_that_is_switched_off_opens_what_code_declares() -> None:
    stage = Stage(settings())
    declare(stage.app)
    async with stage.node():
        pass
    app = another(stage, settings(enabled=False))
    declare(app)
    async with stage.node(app):
        pass
    assert SECRET.encode() in (await firing(stage)).args


# Trouble


@in_virtual_time
async def test_a_provider_that_is_away_delays_the_secret_schedules_and_no_others() -> None:
    stage, vault = Stage(replace(settings(), encryption=EncryptionConfig(key_cache=HOUR))), Vault()
    stage.app.encryption(provider=vault)
    declare(stage.app, encrypted=True)

    @stage.app.schedule(timedelta(seconds=10), name="open")
    @stage.app.task(name="open", encrypted=False)
    async def work() -> None: ...

    async with stage.node():
        await asyncio.sleep(1)
        vault.away = True
        await asyncio.sleep(3590 + 3600)
        stage.events.clear()
        vault.asked = 0
        await asyncio.sleep(120)
        fired = [each.schedule for each in stage.told(ScheduleFired)]
        assert fired.count("open") == 12
        assert "often" not in fired
        assert vault.asked < 40
        problem = (await stored(stage)).problem
        assert problem is not None
        assert "the provider of keys does not answer" in problem
        vault.away = False
        await asyncio.sleep(60)
        assert (await stored(stage)).problem is None
        assert "often" in [each.schedule for each in stage.told(ScheduleFired)]


@in_virtual_time
async def test_what_is_no_secret_does_not_wait_for_keys_with_its_neighbours() -> None:
    stage, vault = Stage(), Vault()
    stage.app.encryption(provider=vault)
    vault.away = True
    pay = declare(stage.app, encrypted=True, scheduled=False)

    @stage.app.task(name="open", encrypted=False)
    async def work() -> None: ...

    jobs = [stage.app.client.prepare(call).job for call in (pay.bind(SECRET), work.bind())]
    # Not to be stored just as its schedule says either: somebody wants to hear of it by now.
    stage.app.sink("billing", lambda _event: None)
    plans = [
        FirePlan(job.task, 1, [PlannedSlot(START, SlotState.FIRED, job)], Overlap.ALLOW, None)
        for job in jobs
    ]
    seal = FiringSeal(stage.app._protection, stage.app.tasks, stage.app.client.renewed)
    sealed, problems = await sealed_plans(plans, seal)
    assert [plan.name for plan in sealed] == ["open"]
    assert sealed[0].slots[0].job != jobs[1]
    assert list(problems) == ["pay"]


@in_virtual_time
async def test_a_key_that_cannot_be_made_of_a_secret_is_a_problem_that_does_not_quote_it() -> None:
    stage, known = Stage(settings()), {SECRET: 1}

    @stage.app.task(name="pay", concurrency=1, concurrency_key=lambda card: known[card])
    async def pay(card: str) -> None: ...

    stage.app.schedule(timedelta(seconds=10), name="often", args=[SECRET])(pay)
    async with stage.node():
        known.clear()
        await asyncio.sleep(15)
        info = await stage.app.schedules.get("often")
    assert info.problem is not None
    assert "concurrency_key of pay" in info.problem
    assert SECRET not in f"{info.problem}{stage.told(ScheduleTrouble)}"


@in_virtual_time
async def test_what_cannot_be_sealed_is_declared_later_and_the_others_now() -> None:
    stage, vault = Stage(), Vault()
    stage.app.encryption(provider=vault)
    vault.away = True
    declare(stage.app, encrypted=True)

    @stage.app.schedule(timedelta(seconds=10), name="z")
    @stage.app.task(name="open", encrypted=False)
    async def work() -> None: ...

    async with stage.node():
        await asyncio.sleep(30)
        assert [info.schedule.name for info in await stage.store.list_schedules()] == ["z"]
        assert any(each.schedule == "often" for each in stage.told(ScheduleTrouble))
        vault.away = False
        await asyncio.sleep(30)
        assert is_sealed((await firing(stage)).args)
        await asyncio.sleep(10)
        assert "often" in [each.schedule for each in stage.told(ScheduleFired)]
    vault.away = True
    later = another(stage, Config())
    later.encryption(provider=vault)
    declare(later, encrypted=True, scheduled=False)
    with pytest.raises(KeyUnavailable):
        await later.schedules.create("new", HOUR, "pay", args=[SECRET])


@pytest.mark.parametrize("how", ["altered", "moved", "no key", "no keys"])
@in_virtual_time
async def test_what_cannot_be_opened_fires_nothing_and_says_why(how: str) -> None:
    stage = Stage(settings(enabled=False))
    declare(stage.app, encrypted=True, scheduled=False)
    await stage.app.schedules.create("once", HOUR, "pay", args=[SECRET])
    await stage.app.schedules.create("twin", HOUR, "pay", args=[SECRET])
    info = await stored(stage, "once")
    args = info.schedule.firing.args
    if how == "altered":
        args = args[:-1] + bytes([args[-1] ^ 1])
    elif how == "moved":
        args = (await firing(stage, "twin")).args
    broken = replace(info.schedule, firing=replace(info.schedule.firing, args=args))
    await stage.store.save_schedule(replace(info, schedule=broken), info.revision)
    app, words = stage.app, "the args of the schedule 'once' were altered"
    if how == "no key":
        app, words = another(stage, settings(enabled=False, k2=NEW)), "with the key 'k1', which"
        declare(app, encrypted=True, scheduled=False)
    elif how == "no keys":
        app, words = another(stage, Config()), "with key k1>, and no keys are set here"
        declare(app, encrypted=False, scheduled=False)
    with pytest.raises(SealError, match=words) as raised:
        await app.schedules.trigger_now("once")
    assert isinstance(raised.value, SealBroken) == (how in {"altered", "moved"})
    async with stage.node(app):
        await asyncio.sleep(3700)
        problem = (await stored(stage, "once")).problem
        assert problem is not None
        assert words in problem
        assert SECRET not in problem
    jobs = await stage.store.list_jobs(JobFilter(), 10)
    assert len(jobs) == (1 if how in {"altered", "moved"} else 0), "only its twin has fired"


# A program without the task, as a command is


@in_virtual_time
async def test_a_command_with_the_keys_fires_encrypted_jobs_and_one_without_fires_none() -> None:
    stage = Stage(settings(enabled=False))
    declare(stage.app, encrypted=True, scheduled=False)
    await stage.app.schedules.create("once", HOUR, "pay", args=[SECRET], params={"pin": SECRET})
    with_keys = another(stage, settings(enabled=False))
    job = await with_keys.schedules.trigger_now("once")
    (row,) = await stage.store.get_jobs([job.id])
    assert is_sealed(row.args)
    assert is_sealed(row.params)
    await with_keys.schedules.backfill("once", START - 2 * HOUR, START)
    without = another(stage, Config())
    assert b"<encrypted with key k1>" in (await without.schedules.get("once")).schedule.firing.args
    with pytest.raises(SealError, match="no keys are set here"):
        await without.schedules.trigger_now("once")
    with pytest.raises(SealError, match="no keys are set here"):
        await without.schedules.backfill("once", START - 9 * HOUR, START)
    before = await firing(stage, "once")
    await without.schedules.update("once", overlap="skip")
    assert await firing(stage, "once") == before, "what it cannot read it does not change"
    assert SECRET not in repr(stage.tables)
    async with stage.node():
        assert await stage.app.jobs.result(job.id, 60) == SECRET
        jobs = await stage.app.jobs.list()
    assert [each.state for each in jobs] == [State.SUCCEEDED] * 3


@in_virtual_time
async def test_who_does_not_know_the_task_keeps_its_secrets_all_the_same() -> None:
    stage = Stage(settings(enabled=False))
    declare(stage.app, encrypted=True, scheduled=False)
    await stage.app.schedules.create("once", HOUR, "pay", args=[SECRET])
    with_keys = another(stage, settings(enabled=False))
    await with_keys.schedules.update("once", params={"pin": SECRET})
    assert is_sealed((await stored(stage, "once")).schedule.firing.params)
    assert SECRET.encode() in (
        (await stage.app.schedules.get("once")).schedule.firing.params or b""
    )
    with pytest.raises(ConfigError, match="there are no keys"):
        await another(stage, Config()).schedules.update("once", params={"pin": "1"})
