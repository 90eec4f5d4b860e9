"""If these fail, a node runs what it may not run, or keeps jobs from nodes that may."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from detent import App, ConfigError, State
from detent.config import Config, PolicyConfig
from detent.events import Bus, TaskDenied, TaskUnknown
from detent.policy import PolicyGuard
from detent.testing.conformance.builders import new_job
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


def declare(app: App, *names: str) -> list[Any]:
    async def work() -> str:
        return "done"

    return [app.task(name=name)(work) for name in names]


def policy(**settings: Any) -> Config:
    return Config(policy=PolicyConfig(**settings))


@pytest.mark.parametrize(
    "allow, deny, task, expected",
    [
        ([], [], "shop.pay", None),
        (["shop.*"], [], "shop.pay", None),
        (["shop.*"], [], "shop", "no pattern of [policy] allow fits"),
        (["shop.*"], [], "Shop.pay", "no pattern of [policy] allow fits"),
        (["*"], ["shop.p?y"], "shop.pay", "[policy] deny has 'shop.p?y'"),
        (["shop.pay"], ["shop.*"], "shop.pay", "[policy] deny has 'shop.*'"),
        ([], ["shop.*"], "mail.send", None),
        (["shop.[pq]ay"], [], "shop.qay", None),
    ],
)
def test_names_decide(allow: list[str], deny: list[str], task: str, expected: str | None) -> None:
    guard = PolicyGuard(PolicyConfig(allow=tuple(allow), deny=tuple(deny)), Bus())
    assert guard.rule_against(task) == expected


@in_virtual_time
async def test_a_denied_job_goes_back_uncharged_for_a_node_that_may_run_it() -> None:
    stage = Stage(policy(deny=["pay"], delay=timedelta(seconds=20)))
    pay, ship = declare(stage.app, "pay", "ship")
    async with stage.node():
        jobs = [await pay.enqueue() for _ in range(3)]
        assert await (await ship.enqueue()).result(60) == "done"
        await asyncio.sleep(50)
        assert [(await job.info()).state for job in jobs] == [State.PENDING] * 3
        (told,) = stage.told(TaskDenied)
        assert (told.task, told.rule, told.delay) == ("pay", "[policy] deny has 'pay'", 20.0)
        stage.config = Config()
        other = stage.new_app()
        declare(other, "pay", "ship")
        async with stage.node(other):
            assert [await job.result(120) for job in jobs] == ["done"] * 3
    assert {(await job.info()).attempt for job in jobs} == {1}


@in_virtual_time
async def test_only_what_is_registered_is_ever_run() -> None:
    stage = Stage(policy(allow=["*"]))
    declare(stage.app, "pay")
    job = new_job(task="os.system")
    await stage.store.enqueue_jobs([job])
    async with stage.node():
        await asyncio.sleep(30)
    (row,) = await stage.store.get_jobs([job.id])
    assert (row.state, row.reason) == (State.WAITING, "unknown_task")
    assert stage.told(TaskUnknown)[0].task == "os.system"


def test_a_strict_node_says_what_to_set() -> None:
    app = App("memory://", config=policy(strict=True))
    declare(app, "shop.pay", "shop.ship")
    with pytest.raises(ConfigError, match=r'strict = true.*allow = \["shop.pay", "shop.ship"\]'):
        app.node_parts(app.config)
    allowed = App("memory://", config=policy(strict=True, allow=["*"]))
    declare(allowed, "shop.pay")
    allowed.node_parts(allowed.config)


def test_without_a_policy_there_is_no_guard() -> None:
    app = App("memory://")
    assert not app.node_parts(app.config).guards


def test_a_rule_without_a_name_is_refused() -> None:
    for setting in ("allow", "deny"):
        made: dict[str, Any] = {setting: ["shop.*", ""]}
        with pytest.raises(ConfigError, match=rf"\[policy\] {setting} = .*must hold no empty name"):
            PolicyConfig(**made)
