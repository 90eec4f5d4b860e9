"""Leads roles in a node's name, and knows when to stop believing that it does.

All roles that a node wants are asked for in one call, every few seconds: those it leads are
confirmed, those that are free are taken. A leader that could not confirm its terms for two thirds
of the lease must assume that others will soon be elected, and stops first. When the store has lost
sight of the node, it has a moment to confirm its terms. Whatever it believes, the store refuses
what is written under an old term.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from detent._engine.service import Service
from detent.config import ClusterConfig
from detent.errors import StoreUnavailable
from detent.events import Bus, HistoryLost, LeaderElected, LeaderLost, LeaderResigned
from detent.model.numbers import went_back
from detent.spi.leadership import BELIEF, Bid, Candidate, Leader, LeaderStore, Term
from detent.spi.notifier import LeaderHint, Notifier, Wake
from detent.spi.numbers import NumberStore
from detent.spi.runtime import Cancelable, Runtime

SCHEDULER: Final = "scheduler"
MAINTENANCE: Final = "maintenance"
TRUST: Final = 2 / 3
# Nodes ask a little earlier than they must, each at another moment.
EARLY: Final = (0.9, 0.98)


@dataclass(slots=True)
class Campaign:
    """A role that the node wants to lead."""

    role: str
    on_elected: Callable[[Term], None] = lambda _term: None
    on_lost: Callable[[Term, str], None] = lambda _term, _reason: None
    is_wanted: Callable[[], bool] = lambda: True
    term: Term | None = None


class Elections(LeaderStore, NumberStore, Protocol):
    """What leading needs of a store."""


class Elector(Service):
    """Confirms what the node leads, and takes what nobody leads."""

    name = "elector"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: Elections,
        notifier: Notifier | None,
        *,
        node_name: str,
        config: ClusterConfig,
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._notifier = notifier
        self._node_name = node_name
        self._check = config.leader_check.total_seconds()
        self._lease = config.leader_lease
        self._trust = self._lease.total_seconds() * TRUST
        # A call that gets no answer must leave time for another before the trust ends.
        self._patience = min(self._check, (self._trust - self._check) / 2)
        self._campaigns: dict[str, Campaign] = {}
        self._terms: dict[str, int] = {}
        """The last term of each role that was heard of, whoever leads it."""
        self._confirmed = self._believed_until = runtime.monotonic()
        self._doubted = -math.inf
        self._deadline: Cancelable | None = None
        self._retired = False
        # Not at once: a role that is being given up would be taken again.
        self._turn = asyncio.Lock()
        self.node_id: UUID | None = None

    def run_for(self, campaign: Campaign) -> None:
        """Want a role from now on."""
        self._campaigns[campaign.role] = campaign

    def receive(self, wakes: Sequence[Wake]) -> None:
        """Take wake-ups from the notifier: somebody may have given up a role."""
        for wake in wakes:
            if isinstance(wake, LeaderHint):
                campaign = self._campaigns.get(wake.role)
                if campaign is not None and campaign.term is None:
                    self.wake()

    def leads(self, role: str) -> Term | None:
        """Return the term under which this node leads a role, if it may believe so now.

        Safe on any thread.
        """
        campaign = self._campaigns.get(role)
        return None if campaign is None or not self._is_trusted() else campaign.term

    def _is_trusted(self) -> bool:
        return self.runtime.monotonic() < self._believed_until

    # Being elected

    async def run_once(self) -> float:
        """Ask once, for everything."""
        pause = self._check * self.runtime.uniform(*EARLY)
        async with self._turn:
            node, bids = self.node_id, self._bids()
            if node is None or not bids:
                return self.unasked(pause)
            before = self.runtime.monotonic()
            leaders = await self._elect(Candidate(node, self._node_name, self.doubt), bids)
            if self.node_id != node:
                return 0.0  # the node was fenced meanwhile; this is an answer to somebody else
            self._confirm(before)
            unwanted = self._hear(node, bids, leaders)
            if unwanted:
                await self._give_up(node, unwanted)
            await self._check_terms(node, leaders)
        soon = [each.free_in for each in leaders if each.free_in is not None]
        return min([pause, *soon])

    def _bids(self) -> list[Bid]:
        if self._retired:
            return []
        return [
            Bid(each.role, None if each.term is None else each.term.number)
            for each in self._campaigns.values()
            if each.term is not None or each.is_wanted()
        ]

    async def _elect(self, candidate: Candidate, bids: Sequence[Bid]) -> list[Leader]:
        try:
            async with asyncio.timeout(self._patience):
                return await self._store.elect(candidate, bids, self._lease)
        except TimeoutError as error:
            raise StoreUnavailable(f"no answer within {self._patience:g} s") from error

    def _confirm(self, asked_at: float) -> None:
        """Believe in what is held for a while, from when we asked: the lease began no sooner."""
        self._confirmed = asked_at
        until = asked_at + self._trust
        if self._doubted > asked_at:
            # The answer was on its way before the doubt came: it does not settle it.
            until = min(until, self._doubted + BELIEF.total_seconds())
        self._believe(until)

    def _believe(self, until: float) -> None:
        self._believed_until = until
        self._cancel_deadline()
        left = until - self.runtime.monotonic()
        self._deadline = self.runtime.later(max(left, 0.0), self._distrust)

    def doubt(self) -> None:
        """The store has lost sight of the node: confirm at once, or believe in nothing soon."""
        self._doubted = self.runtime.monotonic()
        if any(campaign.term is not None for campaign in self._campaigns.values()):
            self._believe(min(self._believed_until, self._doubted + BELIEF.total_seconds()))
            self.wake()

    def _hear(self, node: UUID, bids: Sequence[Bid], leaders: Sequence[Leader]) -> list[Term]:
        """Take the answers; return the terms that are no longer wanted."""
        unwanted = []
        answers = {leader.role: leader for leader in leaders}
        for bid in bids:
            campaign, leader = self._campaigns[bid.role], answers.get(bid.role)
            mine = (
                Term(bid.role, leader.term, node)
                if leader is not None and leader.holder == node
                else None
            )
            if campaign.term is not None and campaign.term != mine:
                other = "nobody" if leader is None or leader.name is None else leader.name
                self._lose(campaign, f"{other} leads now")
            if mine is None or campaign.term is not None:
                continue
            if self._retired or not campaign.is_wanted():
                unwanted.append(mine)
            elif mine.number == bid.term:
                # Lost while the question was on its way. Under the same term, what was sent before
                # the loss could still be written: the next question asks for a new one.
                self.wake()
            # An answer that was so long on its way is not believed; the next asks for a new term.
            elif self._is_trusted():
                campaign.term = mine
                self.bus.emit(LeaderElected(node, mine.role, mine.number))
                campaign.on_elected(mine)
        return unwanted

    async def _check_terms(self, node: UUID, leaders: Sequence[Leader]) -> None:
        """Tell when a term was forgotten that this node has heard of, and have it given no more."""
        forgotten = []
        for leader in leaders:
            last, self._terms[leader.role] = self._terms.get(leader.role), leader.term
            if last is not None and last != leader.term and went_back(last, leader.term):
                what = f"term {last} of {leader.role} is followed by {leader.term}"
                self.bus.emit(HistoryLost(node, what))
                forgotten.append(last)
        if forgotten:
            await self._store.raise_numbers(max(forgotten))

    # No longer being it

    def _distrust(self) -> None:
        silent = self.runtime.monotonic() - self._confirmed
        self._lose_all(f"it could not be confirmed for {silent:.1f} s")

    def abandon(self) -> None:
        """Believe in nothing any more, and write nothing about it: the node was fenced."""
        self._cancel_deadline()
        self._lose_all("the node was fenced")

    def _lose_all(self, reason: str) -> None:
        for campaign in self._campaigns.values():
            if campaign.term is not None:
                self._lose(campaign, reason)

    def _lose(self, campaign: Campaign, reason: str) -> None:
        term, campaign.term = campaign.term, None
        assert term is not None
        self.bus.emit(LeaderLost(term.holder, term.role, term.number, reason))
        campaign.on_lost(term, reason)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    async def resign(self, *roles: str) -> None:
        """Give up roles, and tell others; the caller has ended what was done for them."""
        async with self._turn:
            await self._resign([each for each in self._campaigns.values() if each.role in roles])

    async def retire(self) -> None:
        """Give up all roles, and want none again."""
        self._retired = True
        async with self._turn:
            self._cancel_deadline()
            await self._resign(list(self._campaigns.values()))

    async def _resign(self, campaigns: Sequence[Campaign]) -> None:
        terms = [each.term for each in campaigns if each.term is not None]
        for campaign in campaigns:
            campaign.term = None
        node = self.node_id
        if node is not None and (terms or self._retired):
            await self._give_up(node, terms)

    async def _give_up(self, node: UUID, terms: Sequence[Term]) -> None:
        given = await self._store.resign(node, terms)
        for term in terms:
            if term.role in given:
                self.bus.emit(LeaderResigned(node, term.role, term.number))
        if self._notifier is not None and given:
            self._notifier.publish([LeaderHint(role) for role in given])

    def leave_behind(self, role: str) -> None:
        """Confirm a role no longer, without giving it up: what was done for it goes on.

        Others lead it when the lease, or this process, has ended.
        """
        self._campaigns[role].term = None
