"""If these fail, a cluster has two leaders that both believe in it, or none for too long."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from detent._engine.leadership import Campaign, Elector
from detent._engine.node import Node
from detent.app import App
from detent.config import ClusterConfig, Config
from detent.errors import ConfigError, TermLost
from detent.events import (
    Bus,
    HistoryLost,
    LeaderElected,
    LeaderLost,
    LeaderResigned,
    StoreTrouble,
)
from detent.model.numbers import EPOCH
from detent.spi.leadership import BELIEF, Bid, Candidate, Leader, Term
from detent.stores.memory import MemoryNotifier
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import VirtualRuntime, in_virtual_time

CHECK = 5.0
LEASE = 15.0
TRUST = 10.0


class Candidates:
    """Electors without nodes around them, on one store."""

    def __init__(self, *, wakeups: bool = True) -> None:
        self.stage = Stage(wakeups=wakeups)
        self.notifier = self.stage.notifier
        self.heard: list[tuple[str, str, int]] = []
        self._numbers = 0

    @asynccontextmanager
    async def elector(self, *roles: str) -> AsyncIterator[Elector]:
        self._numbers += 1
        name = f"web-{self._numbers}"
        runtime = VirtualRuntime(name)
        bus = Bus()
        for kind in (LeaderElected, LeaderLost, LeaderResigned, StoreTrouble, HistoryLost):
            bus.subscribe(kind, self.stage.events.append)
        elector = Elector(
            runtime,
            bus,
            self.stage.store,
            self.notifier,
            node_name=name,
            config=ClusterConfig(),
        )
        for role in roles or ("maintenance",):
            elector.run_for(
                Campaign(
                    role,
                    lambda term: self.heard.append(("begin", term.role, term.number)),
                    lambda term, reason: self.heard.append(("end", term.role, term.number)),
                )
            )
        elector.node_id = runtime.new_id()
        tasks = [asyncio.create_task(elector.run())]
        if self.notifier is not None:
            tasks.append(asyncio.create_task(self.notifier.listen(elector.receive)))
        try:
            yield elector
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def until_led(self, elector: Elector, role: str = "maintenance") -> float:
        return await self.stage.until(lambda: elector.leads(role) is not None)


@in_virtual_time
async def test_eight_that_start_at_once_have_one_leader_in_term_one() -> None:
    here = Candidates()
    async with (
        here.elector() as a,
        here.elector() as b,
        here.elector() as c,
        here.elector() as d,
        here.elector() as e,
        here.elector() as f,
        here.elector() as g,
        here.elector() as h,
    ):
        await asyncio.sleep(120)
        leading = [each for each in (a, b, c, d, e, f, g, h) if each.leads("maintenance")]
        assert len(leading) == 1
        assert here.stage.tables.leaders["maintenance"].term == 1
    assert len(here.stage.told(LeaderElected)) == 1
    assert here.stage.told(LeaderLost) == []


@in_virtual_time
async def test_a_leader_asks_once_for_all_its_roles_and_no_more_than_every_check() -> None:
    here = Candidates()
    async with here.elector("a", "b", "c") as elector:
        await here.until_led(elector, "c")
        before = here.stage.line.count("elect")
        await asyncio.sleep(600)
        assert here.stage.line.count("elect") - before <= 600 / (CHECK * 0.9) + 1


@in_virtual_time
async def test_a_leader_that_dies_is_followed_when_its_lease_is_over() -> None:
    here = Candidates()
    async with here.elector() as second:
        second.node_id, late = None, second.node_id
        async with here.elector() as first:
            await here.until_led(first)
            second.node_id = late
            await asyncio.sleep(7)
        died = here.stage.now
        await here.until_led(second)
        assert here.stage.now - died <= LEASE + CHECK
        assert second.leads("maintenance") == Term("maintenance", 2, second.node_id)  # type: ignore[arg-type]


@in_virtual_time
@pytest.mark.parametrize("wakeups", [True, False], ids=["told", "untold"])
async def test_a_resignation_is_followed_at_once_where_hints_arrive(wakeups: bool) -> None:
    here = Candidates(wakeups=wakeups)
    async with here.elector() as first:
        await here.until_led(first)
        async with here.elector() as second:
            await asyncio.sleep(1)
            resigned = here.stage.now
            await first.retire()
            await here.until_led(second)
            assert here.stage.now - resigned <= (0.2 if wakeups else CHECK)
            assert first.leads("maintenance") is None
            await asyncio.sleep(60)
            assert second.leads("maintenance") is not None, "who has retired does not come back"
    (told,) = here.stage.told(LeaderResigned)
    assert (told.role, told.term) == ("maintenance", 1)


@in_virtual_time
async def test_a_role_can_be_given_up_alone() -> None:
    here = Candidates()
    async with here.elector("a", "b") as first, here.elector("a") as second:
        await asyncio.sleep(1)
        leading, other = (first, second) if first.leads("a") else (second, first)
        await leading.resign("a")
        await here.stage.until(lambda: other.leads("a") or leading.leads("a"))
        assert first.leads("b") == Term("b", 1, first.node_id)  # type: ignore[arg-type]


# Doubt


@in_virtual_time
async def test_a_leader_that_cannot_confirm_stops_before_others_can_be_elected() -> None:
    here = Candidates()
    async with here.elector() as first:
        await here.until_led(first)
        elected = here.stage.now
        await asyncio.sleep(1)
        here.stage.line.lose("elect", times=None)
        await here.stage.until(lambda: first.leads("maintenance") is None)
        assert here.stage.now - elected <= TRUST + 0.2
        here.stage.line.heal()
        # What it believes next is a new term, never the old one again.
        await here.until_led(first)
    assert here.heard == [
        ("begin", "maintenance", 1),
        ("end", "maintenance", 1),
        ("begin", "maintenance", 2),
    ]
    (lost,) = here.stage.told(LeaderLost)
    assert "could not be confirmed for 10.0 s" in lost.reason


@in_virtual_time
async def test_a_term_that_was_lost_while_its_confirmation_was_on_its_way_does_not_come_back() -> (
    None
):
    here = Candidates()
    async with here.elector() as first:
        await here.until_led(first)
        here.stage.line.lose("elect", times=None)
        await asyncio.sleep(TRUST - 1.5)
        here.stage.line.heal()
        held = here.stage.line.hold("elect")
        asked = here.stage.line.count("elect")
        await here.stage.until(lambda: here.stage.line.count("elect") > asked)
        assert first.leads("maintenance") is not None
        await here.stage.until(lambda: first.leads("maintenance") is None)
        held.set()
        await here.until_led(first)
    # Under the old one, what its daemon had sent before it was stopped could still be written.
    assert here.heard == [
        ("begin", "maintenance", 1),
        ("end", "maintenance", 1),
        ("begin", "maintenance", 2),
    ]


@in_virtual_time
async def test_a_short_trouble_of_the_store_costs_no_term() -> None:
    here = Candidates()
    async with here.elector() as first:
        await here.until_led(first)
        here.stage.line.lose("elect", times=2)
        await asyncio.sleep(60)
        assert first.leads("maintenance") == Term("maintenance", 1, first.node_id)  # type: ignore[arg-type]
    assert here.stage.told(LeaderLost) == []


@in_virtual_time
async def test_a_call_without_an_answer_is_not_waited_for() -> None:
    here = Candidates()
    async with here.elector() as first:
        await here.until_led(first)
        held = here.stage.line.hold("elect", times=1)
        await asyncio.sleep(TRUST)
        assert first.leads("maintenance") is not None, "the next call was answered in time"
        held.set()
    assert here.stage.told(LeaderLost) == []


@in_virtual_time
async def test_a_reply_that_was_lost_costs_a_term_and_nothing_else() -> None:
    here = Candidates()
    here.stage.line.lose("elect", reply=True)
    async with here.elector() as first:
        await here.until_led(first)
        assert first.leads("maintenance") == Term("maintenance", 2, first.node_id)  # type: ignore[arg-type]
    assert here.heard == [("begin", "maintenance", 2)]


@in_virtual_time
async def test_two_leaders_by_force_the_first_hears_of_it_and_ends() -> None:
    here = Candidates()
    async with here.elector() as first:
        await here.until_led(first)
        old = first.leads("maintenance")
        assert old is not None
        row = here.stage.tables.leaders["maintenance"]
        here.stage.tables.leaders["maintenance"] = row._replace(lease_until=row.since)
        other = Candidate(VirtualRuntime("other").new_id(), "web-9")
        (leader,) = await here.stage.store.elect(other, [Bid("maintenance")], timedelta(hours=1))
        assert (leader.term, leader.holder) == (2, other.id)
        # It still believes; the store does not.
        assert first.leads("maintenance") == old
        store, holder = here.stage.store, VirtualRuntime("holder").new_id()
        await store.acquire_lock("left behind", holder, "web-3", timedelta(0))
        assert await store.forget_locks(old, timedelta(0), 1) == 0, "its first write is refused"
        new = Term("maintenance", leader.term, other.id)
        assert await store.forget_locks(new, timedelta(0), 1) == 1, "there was something to write"
        await here.stage.until(lambda: first.leads("maintenance") is None)
        assert here.stage.now <= CHECK + 1
    assert [event.reason for event in here.stage.told(LeaderLost)] == ["web-9 leads now"]


@in_virtual_time
async def test_a_term_that_the_store_has_forgotten_is_told_and_not_given_again() -> None:
    here = Candidates()
    async with here.elector() as first:
        await here.until_led(first)
        row = here.stage.tables.leaders["maintenance"]
        here.stage.tables.leaders["maintenance"] = row._replace(term=7)
        await asyncio.sleep(20)
        assert here.stage.told(HistoryLost) == []
        assert first.leads("maintenance") == Term("maintenance", 8, first.node_id)  # type: ignore[arg-type]
        here.stage.tables.leaders["maintenance"] = row._replace(term=3)
        await asyncio.sleep(60)
        (told,) = here.stage.told(HistoryLost)
        assert "term 8 of maintenance" in told.evidence
        await first.resign("maintenance")
        await here.until_led(first)
        term = first.leads("maintenance")
        assert term is not None
        assert term.number > EPOCH
    assert len(here.stage.told(HistoryLost)) == 1


@in_virtual_time
async def test_terms_only_grow_whatever_happens() -> None:
    here = Candidates()
    terms: list[int] = []
    for number in range(6):
        if number % 2:
            here.stage.line.lose("elect", reply=True, times=2)
        async with here.elector() as elector:
            await here.stage.until(lambda each=elector: each.leads("maintenance"), 120)  # type: ignore[misc]
            term = elector.leads("maintenance")
            assert term is not None
            terms.append(term.number)
            if number % 3 == 0:
                await elector.resign("maintenance")
    assert terms == sorted(set(terms))


@in_virtual_time
@pytest.mark.parametrize("seed", range(5))
async def test_in_any_weather_at_most_one_believes_and_terms_only_grow(seed: int) -> None:
    chance = random.Random(seed)
    here = Candidates()
    for reply in (False, True):
        here.stage.line.lose(
            "elect", reply=reply, times=None, matching=lambda call: chance.random() < bad[0]
        )
    bad = [0.0]
    async with (
        here.elector() as a,
        here.elector() as b,
        here.elector() as c,
        here.elector() as d,
    ):
        led = 0
        for _ in range(4000):
            if chance.random() < 0.01:
                bad[0] = chance.choice([0.0, 0.3, 0.9, 1.0])
            if chance.random() < 0.01:
                victim = chance.choice([a, b, c, d])
                # A node that was fenced: somebody else from now on.
                victim.abandon()
                victim.node_id = victim.runtime.new_id()
            await asyncio.sleep(chance.uniform(0.0, 0.5))
            leading = [each for each in (a, b, c, d) if each.leads("maintenance")]
            assert len(leading) <= 1, "two believe to lead"
            led += len(leading)
    begun = [term for what, _, term in here.heard if what == "begin"]
    assert begun == sorted(set(begun)), "a term was believed in twice"
    assert len(begun) > 5
    assert led > 400


# When the store has lost sight of a leader


@in_virtual_time
async def test_a_leader_in_doubt_confirms_its_term_at_once_and_goes_on() -> None:
    here = Candidates()
    async with here.elector() as elector:
        await here.until_led(elector)
        await asyncio.sleep(1)
        before = here.stage.line.count("elect")
        elector.doubt()
        await asyncio.sleep(0.1)
        assert here.stage.line.count("elect") == before + 1
        await asyncio.sleep(60)
        assert elector.leads("maintenance") == Term("maintenance", 1, elector.node_id)  # type: ignore[arg-type]
    assert here.heard == [("begin", "maintenance", 1)]


@in_virtual_time
async def test_a_leader_in_doubt_that_gets_no_answer_stops_before_others_may_begin() -> None:
    here = Candidates()
    async with here.elector() as elector:
        await here.until_led(elector)
        await asyncio.sleep(1)
        here.stage.line.lose("elect", times=None)
        elector.doubt()
        doubted = here.stage.now
        await here.stage.until(lambda: elector.leads("maintenance") is None)
        assert here.stage.now - doubted == pytest.approx(BELIEF.total_seconds(), abs=0.1)
        await asyncio.sleep(0.01)
        here.stage.line.heal()
        await here.until_led(elector)
    assert here.heard == [
        ("begin", "maintenance", 1),
        ("end", "maintenance", 1),
        ("begin", "maintenance", 2),
    ]


@in_virtual_time
async def test_an_answer_to_a_question_from_before_the_doubt_does_not_settle_it() -> None:
    here = Candidates()
    async with here.elector() as elector:
        await here.until_led(elector)
        held = here.stage.line.hold("elect", times=1)
        asked = here.stage.line.count("elect")
        elector.wake()
        await here.stage.until(lambda: here.stage.line.count("elect") > asked)
        elector.doubt()
        here.stage.line.lose("elect", times=None)
        held.set()
        doubted = here.stage.now
        await here.stage.until(lambda: elector.leads("maintenance") is None)
        assert here.stage.now - doubted == pytest.approx(BELIEF.total_seconds(), abs=0.1)


@in_virtual_time
async def test_a_candidate_asks_again_when_the_store_expects_a_role_to_be_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Candidates()
    async with here.elector() as first:
        await here.until_led(first)
        asked: list[float] = []
        elect = here.stage.store.elect

        async def losing_sight(*args: Any) -> list[Leader]:
            asked.append(here.stage.now)
            return [leader._replace(free_in=1.5) for leader in await elect(*args)]

        monkeypatch.setattr(here.stage.store, "elect", losing_sight)
        async with here.elector():
            await asyncio.sleep(4)
        assert asked == pytest.approx([asked[0] + 1.5 * number for number in range(3)], abs=0.2)


@in_virtual_time
async def test_a_leadership_in_doubt_is_confirmed_at_once_or_lost() -> None:
    stage = Stage()
    leadership = await stage.app.leaders.try_acquire("importer")
    assert leadership is not None
    await asyncio.sleep(1)
    asked = stage.line.count("elect")
    leadership.doubt()
    await asyncio.sleep(0.1)
    assert stage.line.count("elect") == asked + 1
    await asyncio.sleep(60)
    leadership.check()
    stage.line.lose("elect", times=None)
    leadership.doubt()
    doubted = stage.now
    await leadership.lost.wait()
    assert stage.now - doubted == pytest.approx(BELIEF.total_seconds(), abs=0.1)
    assert not leadership.is_held


# Nodes


@asynccontextmanager
async def started(stage: Stage, **settings: object) -> AsyncIterator[Node]:
    app = stage.new_app()
    config = replace(app.config, node=replace(app.config.node, **settings))  # type: ignore[arg-type]
    node = Node(app.node_parts(config))
    await node.start()
    try:
        yield node
    finally:
        await node.drain()


@in_virtual_time
async def test_nodes_lead_what_their_roles_say() -> None:
    stage = Stage()
    async with started(stage, name="worker-1", roles=("worker",)):
        await stage.until(lambda: stage.tables.leaders)
        assert sorted(stage.tables.leaders) == ["maintenance"]
        async with started(stage, name="all-1"):
            await stage.until(lambda: len(stage.tables.leaders) == 2)
            found = {leader.role: leader.name for leader in await stage.app.leaders.list()}
            assert found == {"maintenance": "worker-1", "scheduler": "all-1"}
    assert await stage.app.leaders.list() == []


@in_virtual_time
async def test_a_node_that_drains_hands_over_before_its_last_job_has_ended() -> None:
    stage = Stage()

    @stage.app.task
    async def long() -> None:
        await asyncio.sleep(20)

    await long.enqueue()
    async with stage.node() as first:
        await stage.until(lambda: stage.tables.running)
        await stage.until(lambda: len(stage.tables.leaders) == 2)
        async with started(stage) as second:
            draining = asyncio.create_task(first.drain())
            follows = second.identity.incarnation
            await stage.until(lambda: stage.tables.leaders["maintenance"].node == follows)
            assert stage.now < 5
            assert stage.tables.running
            await draining


@in_virtual_time
async def test_a_fenced_node_leads_nothing_and_is_elected_anew_as_somebody_else() -> None:
    stage = Stage()
    async with stage.node() as node:
        await stage.until(lambda: len(stage.tables.leaders) == 2)
        old = node.identity.incarnation
        await stage.store.declare_dead([old], "a test")
        await stage.until(
            lambda: stage.tables.leaders["maintenance"].node not in (old, None), limit=30
        )
        assert node.identity.incarnation != old
        assert stage.tables.leaders["maintenance"].term == 2
    reasons = {event.reason for event in stage.told(LeaderLost)}
    assert reasons <= {"the node was fenced", "nobody leads now"}, "whichever it hears of first"


@in_virtual_time
async def test_an_idle_node_asks_for_leaderships_about_every_five_seconds() -> None:
    stage = Stage()
    async with stage.node(), started(stage):
        await asyncio.sleep(60)
        calls = len(stage.line.calls)
        asked = stage.line.count("elect")
        await asyncio.sleep(600)
        asked = stage.line.count("elect") - asked
        others = {call.statement for call in stage.line.calls[calls:]}
    assert asked / 600 / 2 <= 0.23
    assert "save_daemon" not in others


# Leading a role oneself


@in_virtual_time
async def test_a_role_can_be_led_without_a_node() -> None:
    stage = Stage()
    first = await stage.app.leaders.try_acquire("importer")
    assert first is not None
    assert (first.role, first.term, first.is_held) == ("importer", 1, True)
    assert await stage.new_app().leaders.try_acquire("importer") is None
    await asyncio.sleep(600)
    first.check()
    (leader,) = await stage.app.leaders.list()
    assert (leader.role, leader.term) == ("importer", 1)
    assert leader.since == stage.tables.leaders["importer"].since
    assert await first.release()
    assert not first.is_held
    assert not await first.release(), "once"
    second = await stage.new_app().leaders.try_acquire("importer")
    assert second is not None
    assert second.term == 2
    async with second:
        second.check()
    assert await stage.app.leaders.list() == []


@in_virtual_time
async def test_a_leadership_that_is_lost_says_so() -> None:
    stage = Stage()
    leadership = await stage.app.leaders.try_acquire("importer")
    assert leadership is not None
    row = stage.tables.leaders["importer"]
    stage.tables.leaders["importer"] = row._replace(lease_until=row.since)
    successor = await stage.new_app().leaders.try_acquire("importer")
    assert successor is not None
    async with asyncio.timeout(CHECK + 1):
        await leadership.lost.wait()
    with pytest.raises(TermLost, match="term 1 of 'importer' is over"):
        leadership.check()
    assert not await leadership.release()
    assert successor.is_held


@in_virtual_time
async def test_a_leadership_that_was_taken_and_given_up_by_others_is_lost_all_the_same() -> None:
    stage = Stage()
    leadership = await stage.app.leaders.try_acquire("importer")
    assert leadership is not None
    row = stage.tables.leaders["importer"]
    stage.tables.leaders["importer"] = row._replace(term=2, node=None)
    await leadership.lost.wait()
    assert stage.tables.leaders["importer"].node is None, "it keeps no term that nobody knows of"


@in_virtual_time
async def test_a_leadership_in_doubt_is_lost_in_time() -> None:
    stage = Stage()
    leadership = await stage.app.leaders.try_acquire("importer")
    assert leadership is not None
    stage.line.lose("elect", times=None)
    await leadership.lost.wait()
    assert TRUST - 0.1 <= stage.now <= TRUST + 0.1


@in_virtual_time
async def test_a_transaction_is_fenced_by_a_leadership() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None: ...

    leadership = await stage.app.leaders.try_acquire("importer")
    assert leadership is not None
    async with stage.store.begin() as connection:
        await leadership.fenced(connection)
        await work.options(within=connection).enqueue()
    assert len(stage.tables.ready) == 1
    row = stage.tables.leaders["importer"]
    with pytest.raises(TermLost):  # noqa: PT012  it is the commit that fails
        async with stage.store.begin() as connection:
            await leadership.fenced(connection)
            await work.options(within=connection).enqueue()
            stage.tables.leaders["importer"] = row._replace(term=2)
    assert len(stage.tables.ready) == 1
    with pytest.raises(TermLost):
        async with stage.store.begin() as connection:
            await leadership.fenced(connection)


@in_virtual_time
async def test_a_connection_that_cannot_be_fenced_is_refused_in_its_own_words() -> None:
    stage = Stage()
    leadership = await stage.app.leaders.try_acquire("importer")
    assert leadership is not None
    with pytest.raises(Exception, match=r"^fenced\(\) needs a database"):
        await leadership.fenced(object())


@pytest.mark.parametrize("role", ["", "a\n", "x" * 256, 3, None])
async def test_a_role_must_have_a_name(role: str) -> None:
    app = App(config=Config(), store=Stage().store, notifier=MemoryNotifier())
    with pytest.raises(ConfigError, match=r"^role "):
        await app.leaders.try_acquire(role)


@in_virtual_time
async def test_closing_an_app_gives_up_what_it_leads() -> None:
    stage = Stage()
    assert await stage.app.leaders.try_acquire("importer") is not None
    await stage.app.close()
    assert await stage.new_app().leaders.try_acquire("importer") is not None
