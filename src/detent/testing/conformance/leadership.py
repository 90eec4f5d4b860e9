"""What `LeaderStore` and `DaemonStore` promise: one leader, growing terms, no writes of the old."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from detent.errors import DetentError, TermLost
from detent.spi.daemons import DaemonReport
from detent.spi.leadership import Bid, Candidate, Term
from detent.spi.store import Store
from detent.testing.conformance.builders import HOUR, MINUTE, new_id, new_job
from detent.testing.conformance.enqueue import CallerTransaction
from detent.testing.conformance.steps import joined, now_of

NO_LEASE = timedelta(0)
ROLE = "maintenance"
DAEMON = "daemon:feed"
RUNNING = DaemonReport("feed", "running", "web-1", 0)


def somebody(name: str = "web-1") -> Candidate:
    """Return a candidate with an id of its own."""
    return Candidate(new_id(), name)


async def elected(
    store: Store, candidate: Candidate, role: str = ROLE, lease: timedelta = HOUR
) -> Term:
    """Let a candidate take a role that is free."""
    (leader,) = await store.elect(candidate, [Bid(role)], lease)
    assert leader.holder == candidate.id, "the role was not free"
    return Term(role, leader.term, candidate.id)


async def leader_of(store: Store, role: str = ROLE) -> tuple[int, UUID | None] | None:
    """Return term and holder of a role that is led."""
    found = {leader.role: leader for leader in await store.leaders()}
    return (found[role].term, found[role].holder) if role in found else None


async def expire(store: Store, candidate: Candidate, term: Term) -> None:
    """Let the lease of a leader run out."""
    await store.elect(candidate, [Bid(term.role, term.number)], NO_LEASE)


class LeaderConformance:
    """Elections, terms, resignations, and the fence of a leader's transactions."""

    @pytest.fixture
    def caller_transaction(self) -> CallerTransaction:
        """Return what opens a transaction of the caller's own and yields its connection."""
        pytest.skip("override caller_transaction to test fence_within")

    # Elections

    async def test_the_first_to_ask_leads(self, store: Store) -> None:
        before = await now_of(store)
        first, second = somebody("web-1"), somebody("web-2")
        (leader,) = await store.elect(first, [Bid(ROLE)], MINUTE)
        assert leader[:4] == (ROLE, 1, first.id, "web-1")
        assert leader.since is not None
        assert leader.lease_until is not None
        assert before <= leader.since <= await now_of(store)
        assert leader.lease_until - leader.since == pytest.approx(MINUTE, abs=timedelta(seconds=5))
        assert await store.elect(second, [Bid(ROLE)], MINUTE) == [leader]
        assert await store.leaders() == [leader]

    async def test_a_leader_keeps_its_term(self, store: Store) -> None:
        first = somebody()
        term = await elected(store, first, lease=MINUTE)
        (kept,) = await store.elect(first, [Bid(ROLE, term.number)], HOUR)
        assert (kept.term, kept.holder) == (term.number, first.id)
        assert kept.lease_until is not None
        assert kept.lease_until > await now_of(store) + 2 * MINUTE
        (seen,) = await store.elect(somebody(), [Bid(ROLE)], HOUR)
        assert seen == kept

    async def test_a_lease_that_ran_out_frees_the_role(self, store: Store) -> None:
        first, second = somebody(), somebody()
        term = await elected(store, first)
        await expire(store, first, term)
        assert await store.leaders() == []
        assert (await elected(store, second)).number == 2
        # The old leader learns of it, whatever it believes, and disturbs nobody.
        (seen,) = await store.elect(first, [Bid(ROLE, term.number)], HOUR)
        assert (seen.term, seen.holder) == (2, second.id)
        assert await leader_of(store) == (2, second.id)

    async def test_a_leader_whom_nobody_followed_keeps_its_term(self, store: Store) -> None:
        first = somebody()
        term = await elected(store, first, lease=NO_LEASE)
        (kept,) = await store.elect(first, [Bid(ROLE, term.number)], HOUR)
        assert (kept.term, kept.holder) == (1, first.id)

    async def test_who_has_forgotten_its_term_gets_a_new_one(self, store: Store) -> None:
        """The answer to its election was lost, or it has given up the term for itself."""
        first = somebody()
        old = await elected(store, first)
        new = await elected(store, first)
        assert new.number == old.number + 1
        (seen,) = await store.elect(first, [Bid(ROLE, old.number)], HOUR)
        assert (seen.term, seen.holder) == (new.number + 1, first.id), "an old term keeps nothing"

    async def test_roles_are_independent(self, store: Store) -> None:
        first, second = somebody(), somebody()
        await elected(store, first, "b")
        answer = await store.elect(second, [Bid("c"), Bid("a"), Bid("b")], HOUR)
        found = {leader.role: (leader.term, leader.holder) for leader in answer}
        assert found == {"a": (1, second.id), "b": (1, first.id), "c": (1, second.id)}
        assert [leader.role for leader in await store.leaders()] == ["a", "b", "c"]
        answer = await store.elect(second, [Bid("a", 1), Bid("b"), Bid("c", 1)], HOUR)
        assert {leader.role: (leader.term, leader.holder) for leader in answer} == found

    async def test_nobody_asks_for_nothing(self, store: Store) -> None:
        assert await store.elect(somebody(), [], HOUR) == []

    async def test_of_many_one_is_elected(self, store: Store) -> None:
        for number in range(1, 6):
            candidates = [somebody() for _ in range(8)]
            answers = await asyncio.gather(
                *(store.elect(each, [Bid("a"), Bid("b")], HOUR) for each in candidates)
            )
            for index, role in enumerate(("a", "b")):
                won = [
                    each
                    for each, answer in zip(candidates, answers, strict=True)
                    for leader in answer
                    if leader.role == role and leader.holder == each.id
                ]
                assert len(won) == 1, f"{len(won)} lead {role}"
                term = Term(role, number, won[0].id)
                assert (await store.leaders())[index][:3] == term, "one step at a time"
            terms = [Term(role, number, UUID(int=0)) for role in ("a", "b")]
            for each in candidates:
                await store.resign(each.id, [term._replace(holder=each.id) for term in terms])

    # Resigning

    async def test_after_a_resignation_the_next_need_not_wait(self, store: Store) -> None:
        first, second = somebody(), somebody()
        term = await elected(store, first)
        assert await store.resign(first.id, [term]) == [ROLE]
        assert await store.leaders() == []
        assert await store.resign(first.id, [term]) == [], "once"
        assert (await elected(store, second)).number == 2

    async def test_an_old_term_cannot_be_resigned(self, store: Store) -> None:
        first, second = somebody(), somebody()
        old = await elected(store, first, lease=NO_LEASE)
        new = await elected(store, second)
        assert await store.resign(first.id, [old]) == []
        assert await store.resign(first.id, [new._replace(holder=first.id)]) == []
        assert await leader_of(store) == (new.number, second.id)

    async def test_terms_never_begin_anew(self, store: Store) -> None:
        numbers = []
        for _ in range(5):
            candidate = somebody()
            term = await elected(store, candidate)
            numbers.append(term.number)
            await store.resign(candidate.id, [term])
        assert numbers == [1, 2, 3, 4, 5]

    async def test_one_may_stop_being_a_candidate(self, store: Store) -> None:
        first, second = somebody(), somebody()
        await elected(store, first)
        assert await store.resign(second.id, []) == []
        assert await leader_of(store) == (1, first.id)

    # The dead

    async def test_a_role_is_free_when_its_node_is_dead(self, store: Store) -> None:
        dying = Candidate(await joined(store), "web-1")
        await elected(store, dying)
        await store.declare_dead([dying.id], "its process ended")
        assert await store.leaders() == []
        assert (await elected(store, somebody())).number == 2

    async def test_a_dead_node_neither_gets_nor_keeps_a_role(self, store: Store) -> None:
        dead = Candidate(await joined(store), "web-1")
        term = await elected(store, dead, lease=MINUTE)
        await store.declare_dead([dead.id], "its lease ran out")
        answer = await store.elect(dead, [Bid(ROLE, term.number), Bid("other")], HOUR)
        assert [leader.role for leader in answer if leader.holder == dead.id] == []
        assert await store.leaders() == []
        assert (await elected(store, somebody(), "other")).number == 1

    # The fence

    async def test_a_fenced_transaction_commits_under_its_term(
        self, store: Store, caller_transaction: CallerTransaction
    ) -> None:
        term, job = await elected(store, somebody()), new_job()
        async with caller_transaction() as connection:
            await store.fence_within(connection, term)
            await store.enqueue_within(connection, [job], None)
        assert [found.id for found in await store.get_jobs([job.id])] == [job.id]

    async def test_the_lease_is_renewed_while_a_fenced_transaction_is_open(
        self, store: Store, caller_transaction: CallerTransaction
    ) -> None:
        candidate = somebody()
        term = await elected(store, candidate)
        async with caller_transaction() as connection:
            await store.fence_within(connection, term)
            (kept,) = await store.elect(candidate, [Bid(ROLE, term.number)], HOUR)
            assert (kept.term, kept.holder) == (term.number, candidate.id)

    async def test_an_old_term_fences_nothing(
        self, store: Store, caller_transaction: CallerTransaction
    ) -> None:
        candidate = somebody()
        old = await elected(store, candidate, lease=NO_LEASE)
        new = await elected(store, somebody())
        wrong = [
            old,
            new._replace(number=old.number),
            new._replace(holder=candidate.id),
            new._replace(number=new.number + 1),
            new._replace(role="other"),
        ]
        await store.resign(new.holder, [new])
        for term in [*wrong, new]:
            with pytest.raises(TermLost) as refused:
                async with caller_transaction() as connection:
                    await store.fence_within(connection, term)
            assert (refused.value.role, refused.value.term) == term[:2]

    async def test_a_term_does_not_end_under_an_open_transaction(
        self, store: Store, caller_transaction: CallerTransaction
    ) -> None:
        """Either the successor waits for it, or it is not committed."""
        candidate, successor, job = somebody(), somebody(), new_job()
        term = await elected(store, candidate, lease=MINUTE)
        followed = False
        try:
            async with caller_transaction() as connection:
                await store.fence_within(connection, term)
                await store.enqueue_within(connection, [job], None)
                await expire(store, candidate, term)
                (leader,) = await store.elect(successor, [Bid(ROLE)], HOUR)
                followed = leader.holder == successor.id
            committed = True
        except DetentError:
            committed = False
        assert bool(await store.get_jobs([job.id])) is committed
        assert not (followed and committed)
        if not followed:
            assert (await elected(store, successor)).number == 2

    # Daemons

    async def test_a_report_is_kept_and_seen_by_all(self, store: Store) -> None:
        before = await now_of(store)
        term = await elected(store, somebody(), DAEMON)
        assert await store.save_daemon(term, RUNNING)
        (found,) = await store.daemons()
        assert found[:5] == ("feed", "running", term.holder, "web-1", 1)
        assert (found.restarts, found.last_error, found.failed_at) == (0, None, None)
        assert found.since is not None
        assert before <= found.since <= await now_of(store)

    async def test_the_last_error_outlives_a_restart(self, store: Store) -> None:
        term = await elected(store, somebody(), DAEMON)
        failed = DaemonReport("feed", "restarting", "web-1", 1, "OSError: gone")
        assert await store.save_daemon(term, failed)
        assert await store.save_daemon(term, RUNNING._replace(restarts=1))
        (found,) = await store.daemons()
        assert (found.state, found.restarts, found.last_error) == ("running", 1, "OSError: gone")
        assert found.failed_at is not None

    async def test_a_report_under_an_old_term_is_refused(self, store: Store) -> None:
        old = await elected(store, somebody(), DAEMON, NO_LEASE)
        new = await elected(store, somebody(), DAEMON)
        assert not await store.save_daemon(old, RUNNING)
        assert await store.daemons() == []
        assert await store.save_daemon(new, RUNNING._replace(node_name="web-2"))
        assert not await store.save_daemon(old, RUNNING._replace(state="stopped"))
        (found,) = await store.daemons()
        assert (found.state, found.node_name, found.term) == ("running", "web-2", 2)

    async def test_a_daemon_whose_leader_is_gone_has_stopped(self, store: Store) -> None:
        node = Candidate(await joined(store), "web-1")
        term = await elected(store, node, DAEMON)
        await store.save_daemon(term, RUNNING)
        await store.declare_dead([node.id], "its process ended")
        (found,) = await store.daemons()
        assert (found.state, found.node, found.term) == ("stopped", node.id, 1)
        new = await elected(store, somebody(), DAEMON)
        assert [found.state for found in await store.daemons()] == ["stopped"]
        await store.save_daemon(new, RUNNING)
        assert [found.state for found in await store.daemons()] == ["running"]

    async def test_reports_are_listed_by_name(self, store: Store) -> None:
        for name in ("b", "a"):
            term = await elected(store, somebody(), f"daemon:{name}")
            await store.save_daemon(term, RUNNING._replace(name=name))
        assert [found.name for found in await store.daemons()] == ["a", "b"]
