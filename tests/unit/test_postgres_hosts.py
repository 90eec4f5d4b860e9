"""If these fail, the loss of one database server is the loss of all of them."""

from typing import Any

import asyncpg
import pytest

from detent.stores.postgres.hosts import Hosts, hosts_in


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


class Servers:
    """Stands for the driver: what each host answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: object) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.options: list[Any] = []
        monkeypatch.setattr(asyncpg, "connect", self.connect)

    async def connect(self, url: str, **options: Any) -> object:
        name = "one" if "one" in url else "two"
        self.asked.append(name)
        self.options.append(options)
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_the_host_that_answered_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(monkeypatch, one=ConnectionRefusedError(), two="connection")
    both = Hosts("postgresql://one,two/jobs")
    assert await both.connect(30) == "connection"
    assert await both.connect(30) == "connection"
    assert servers.asked == ["one", "two", "two"]
    servers.answers = {"one": "other", "two": TimeoutError()}
    assert await both.connect(30) == "other"
    assert await both.connect(30) == "other"
    assert servers.asked[3:] == ["two", "one", "one"]


async def test_only_one_that_can_be_written_to_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    standby = asyncpg.TargetServerAttributeNotMatched("a standby")
    servers = Servers(monkeypatch, one=standby, two="connection")
    assert await Hosts("postgresql://one,two/jobs").connect(30) == "connection"
    # It may not even know the database yet.
    servers.answers["one"] = asyncpg.InvalidCatalogNameError('database "jobs" does not exist')
    assert await Hosts("postgresql://one,two/jobs").connect(30) == "connection"
    assert servers.options[0]["target_session_attrs"] == "read-write"
    # Unless the URL says otherwise, or there is no choice.
    await Hosts("postgresql://one,two/jobs?target_session_attrs=any").connect(30)
    assert "target_session_attrs" not in servers.options[-1]
    await Hosts("postgresql://two/jobs").connect(30)
    assert "target_session_attrs" not in servers.options[-1]


async def test_a_refusal_says_more_than_a_standby(monkeypatch: pytest.MonkeyPatch) -> None:
    standby = asyncpg.TargetServerAttributeNotMatched("a standby")
    refused = ConnectionRefusedError("refused")
    for answers in ({"one": standby, "two": refused}, {"one": refused, "two": standby}):
        Servers(monkeypatch, **answers)
        with pytest.raises(ConnectionRefusedError):
            await Hosts("postgresql://one,two/jobs").connect(30)


async def test_a_wrong_password_is_wrong_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(monkeypatch, one=asyncpg.InvalidPasswordError("wrong"), two="connection")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await Hosts("postgresql://one,two/jobs").connect(30)
    assert servers.asked == ["one"]
