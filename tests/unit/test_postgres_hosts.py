"""If these fail, the loss of one database server is the loss of all of them."""

import asyncio
from typing import Any, Final

import asyncpg
import pytest

from detent.stores.postgres.answers import AGAIN, GRACE, NoPrimaryError
from detent.stores.postgres.hosts import ATTRIBUTE, RECHECK, Hosts, hosts_in
from detent.testing.virtual import in_virtual_time


@pytest.mark.parametrize(
    "url, each",
    [
        ("postgresql://one/jobs", ["postgresql://one/jobs"]),
        ("postgresql:///jobs?host=/tmp", ["postgresql:///jobs?host=/tmp"]),
        (
            "postgresql://ada:p%2C@one:5432,two:5433/jobs?sslmode=require",
            [
                "postgresql://ada:p%2C@one:5432/jobs?sslmode=require",
                "postgresql://ada:p%2C@two:5433/jobs?sslmode=require",
            ],
        ),
        ("postgresql://[::1],two/jobs", ["postgresql://[::1]/jobs", "postgresql://two/jobs"]),
        (
            "postgresql://ada@/jobs?host=one,two&port=5432,5433&sslmode=require",
            [
                "postgresql://ada@/jobs?host=one&port=5432&sslmode=require",
                "postgresql://ada@/jobs?host=two&port=5433&sslmode=require",
            ],
        ),
        (
            "postgresql://ada@/jobs?host=one,two&port=6432",
            [
                "postgresql://ada@/jobs?host=one&port=6432",
                "postgresql://ada@/jobs?host=two&port=6432",
            ],
        ),
    ],
)
def test_each_host_has_a_url_of_its_own(url: str, each: list[str]) -> None:
    assert hosts_in(url) == each


class Answer:
    """Stands for a connection: what a server says about itself."""

    def __init__(self, name: str, timeline: int = 1, *, standby: bool = False) -> None:
        self.name = name
        self.timeline = timeline
        self.standby = standby
        self.ended = False

    async def fetchrow(self, _sql: str) -> tuple[int, bool]:
        return 1, self.standby

    async def fetchval(self, _sql: str) -> str:
        return f"{self.timeline:08X}0000000100000002"

    def get_server_pid(self) -> int:
        return 1

    async def close(self, timeout: float) -> None:
        self.ended = True

    def terminate(self) -> None:
        self.ended = True

    def is_closed(self) -> bool:
        return self.ended


class Servers:
    """Stands for the driver: what each host answers. A host without an answer is silent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: object) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.options: list[Any] = []
        monkeypatch.setattr(asyncpg, "connect", self.connect)

    async def connect(self, url: str, **options: Any) -> object:
        name = "one" if "one" in url else "two"
        self.asked.append(name)
        self.options.append(options)
        answer = self.answers.get(name)
        if answer is None:
            await asyncio.get_running_loop().create_future()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Answer)
        if answer.standby and options.get(ATTRIBUTE) == "read-write":
            raise asyncpg.TargetServerAttributeNotMatched("a standby")
        return Answer(answer.name, answer.timeline, standby=answer.standby)


URL: Final = "postgresql://one,two/jobs"
STANDBY: Final = Answer("standby", standby=True)


async def connected(hosts: Hosts) -> str:
    """Return to which server one connection more leads."""
    connection = await hosts.connect(30)
    assert isinstance(connection, Answer)
    return connection.name


@in_virtual_time
async def test_the_host_that_was_found_is_asked_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(monkeypatch, one=ConnectionRefusedError(), two=Answer("two"))
    both = Hosts(URL)
    assert await connected(both) == "two"
    del servers.asked[:]
    assert await connected(both) == "two"
    assert servers.asked == ["two"]
    # Until it fails: then both are asked.
    servers.answers = {"one": Answer("one"), "two": TimeoutError()}
    assert await connected(both) == "one"
    del servers.asked[:]
    assert await connected(both) == "one"
    assert servers.asked == ["one"]


@in_virtual_time
async def test_only_one_that_can_be_written_to_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(monkeypatch, one=STANDBY, two=Answer("two"))
    assert await connected(Hosts(URL)) == "two"
    assert servers.options[-1][ATTRIBUTE] == "read-write"
    # It may not even know the database yet.
    servers.answers["one"] = asyncpg.InvalidCatalogNameError('database "jobs" does not exist')
    assert await connected(Hosts(URL)) == "two"
    # Unless the URL says otherwise, or there is no choice.
    servers.answers["one"] = STANDBY
    for url in (f"{URL}?{ATTRIBUTE}=any", "postgresql://two/jobs"):
        await Hosts(url).connect(30)
        assert ATTRIBUTE not in servers.options[-1]


@in_virtual_time
async def test_a_silent_host_hides_no_other_even_from_the_impatient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = Servers(monkeypatch, one=Answer("one"), two=STANDBY)
    both = Hosts(URL)
    kept = await both.connect(30)
    servers.answers = {"two": STANDBY}
    both.doubt()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2.5):
            await both.connect(30)
    assert not kept.ended, "there is no better one yet"
    # The search goes on, and so hears of the promotion at once.
    servers.answers = {"two": Answer("two", 2)}
    await asyncio.sleep(AGAIN + GRACE + 0.01)
    assert kept.ended, "nothing on it will ever be answered"
    async with asyncio.timeout(0.1):
        assert await connected(both) == "two"


@in_virtual_time
async def test_of_two_that_take_writes_the_newer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other has been replaced, and does not know it."""
    servers = Servers(monkeypatch, one=Answer("one", 1), two=STANDBY)
    both = Hosts(URL)
    old = await both.connect(30)
    servers.answers["two"] = Answer("two", 2)
    both.suspect(30)
    await asyncio.sleep(RECHECK)
    assert not old.ended, "it was asked a moment ago"
    both.suspect(30)
    await asyncio.sleep(GRACE)
    assert old.ended
    assert await connected(both) == "two"
    # Nor is it taken again when the new one has gone.
    servers.answers["two"] = ConnectionRefusedError("refused")
    with pytest.raises(NoPrimaryError, match=r"one: takes writes, but on timeline 1: .*; two: ref"):
        await both.connect(30)


@in_virtual_time
async def test_a_slow_statement_on_the_right_server_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Servers(monkeypatch, one=Answer("one", 3), two=STANDBY)
    both = Hosts(URL)
    kept = await both.connect(30)
    for _ in range(3):
        await asyncio.sleep(RECHECK)
        both.suspect(30)
    await asyncio.sleep(RECHECK)
    assert not kept.ended
    assert both.connections.count() == 1


@in_virtual_time
async def test_behind_one_name_another_server_is_known_by_its_timeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy or an address that moved leads elsewhere; what was open before leads nowhere."""
    servers = Servers(monkeypatch, one=Answer("old", 1))
    one = Hosts("postgresql://one/jobs")
    old = await one.connect(30)
    servers.answers["one"] = Answer("new", 2)
    one.doubt()
    assert await connected(one) == "new"
    await asyncio.sleep(0)
    assert old.ended


@in_virtual_time
async def test_all_hosts_are_told_when_none_takes_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(monkeypatch, one=ConnectionRefusedError("refused"))
    both = Hosts("postgresql://ada:secret@one:5433,two/jobs")
    with pytest.raises(NoPrimaryError) as caught:
        await both.connect(30)
    said = "none of 2 hosts takes writes: one:5433: refused; two: no answer within 5 s"
    assert str(caught.value) == said
    servers.answers["two"] = Answer("two")
    assert await connected(both) == "two"
    servers.answers["two"] = STANDBY
    both.doubt()
    with pytest.raises(NoPrimaryError, match="two: a standby"):
        await both.connect(30)


@in_virtual_time
async def test_standbys_will_do_for_those_who_never_had_a_primary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They look at jobs; as soon as there is a primary, they look there."""
    servers = Servers(monkeypatch, one=ConnectionRefusedError("refused"), two=STANDBY)
    both = Hosts(URL)
    standby = await both.connect(30)
    assert standby.name == "standby"
    servers.answers["one"] = Answer("one")
    assert await connected(both) == "one"
    await asyncio.sleep(0)
    assert standby.ended


@in_virtual_time
async def test_a_wrong_password_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = asyncpg.InvalidPasswordError("wrong")
    servers = Servers(monkeypatch, one=wrong, two=wrong)
    with pytest.raises(asyncpg.InvalidPasswordError):
        await Hosts(URL).connect(30)
    assert sorted(servers.asked) == ["one", "two"]


@pytest.mark.parametrize("mode", ["prefer", "disable", "require"])
async def test_a_proxy_without_a_server_is_told_as_such(mode: str) -> None:
    """It takes connections and ends them, as HAProxy does."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ConnectionError, match="was ended before a server answered"):
            await Hosts(f"postgresql://ada@{host}/jobs?sslmode={mode}").connect(30)


@in_virtual_time
async def test_a_search_ends_with_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    Servers(monkeypatch)
    both = Hosts(URL)
    both.suspect(30)
    await asyncio.sleep(1)
    await both.close()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
