"""If these fail, nobody can see limits, or change them while jobs run."""

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from detent import App
from detent.model.limits import Limit
from detent.model.rates import Algorithm, Rate
from tests.cli.conftest import Detent
from tests.cli.stores import Program


@pytest.fixture
def program(store_url: str) -> Program:
    made = Program(store_url)

    async def declare(app: App) -> None:
        await app.store.declare_limits(
            [Limit("resource:smtp", 3), Limit("rate:call", rate=Rate(100, burst=10))]
        )

    made.call(declare)
    return made


@pytest.fixture
def run(detent: Detent, program: Program) -> Callable[..., Result]:
    return lambda *arguments: detent(*arguments, DETENT_URL=program.url)


def known(program: Program) -> dict[str, Limit]:
    async def look(app: App) -> dict[str, Limit]:
        return {each.limit.name: each.limit for each in await app.limits.list()}

    return program.call(look)


def test_limits_are_listed(run: Callable[..., Result]) -> None:
    assert run("limits").output.splitlines() == [
        "rate:call\t0\t-\t100\t1.0\t10\tbucket\tfalse\t-\tfalse",
        "resource:smtp\t0\t3\t-\t-\t-\t-\tfalse\t-\tfalse",
    ]
    rate, resource = json.loads(run("limits", "list", "--json").output)
    assert (rate["rate"], rate["burst"], resource["concurrency"]) == (100, 10, 3)


def test_limits_are_listed_for_people(
    run: Callable[..., Result], terminal: Callable[[int], None]
) -> None:
    terminal(80)
    said = run("limits").output
    assert "100/s, burst 10" in said
    assert "detent limits set rate:call --rate 10/s" in said


def test_a_limit_is_changed_and_taken_back(run: Callable[..., Result], program: Program) -> None:
    assert "resource:smtp: 7 at once, 10/60s, burst 2." in (
        run("limits", "set", "smtp", "--concurrency", "7", "--rate", "10/1m", "--burst", "2").output
    )
    assert known(program)["resource:smtp"].concurrency == 7
    assert json.loads(run("limits", "reset", "smtp", "--json").output)["limited"]
    assert known(program)["resource:smtp"] == Limit("resource:smtp", 3)


def test_a_queue_is_limited_and_let_go(run: Callable[..., Result], program: Program) -> None:
    program.enqueue(queue="mail")
    assert "queue:mail: 2 at once." in run("queues", "limit", "mail", "--concurrency", "2").output
    assert known(program)["queue:mail"] == Limit("queue:mail", 2)
    assert "no limit" in run("queues", "limit", "mail", "--off").output
    assert "queue:mail" not in known(program)
    assert run("queues", "limit", "mial", "--concurrency", "2").exit_code == 1


def test_what_is_not_said_of_a_limit_stays(run: Callable[..., Result], program: Program) -> None:
    window = Rate(9, algorithm=Algorithm.WINDOW)

    async def declare(app: App) -> None:
        await app.store.declare_limits([Limit("resource:api", 4, window)])

    program.call(declare)
    program.enqueue(queue="mail")
    assert (
        "resource:api: 2 at once, 9/s." in run("limits", "set", "api", "--concurrency", "2").output
    )
    assert known(program)["resource:api"] == Limit("resource:api", 2, window)
    run("limits", "set", "api", "--rate", "5/s")
    assert known(program)["resource:api"].rate == Rate(5, algorithm=Algorithm.WINDOW)
    run("limits", "set", "rate:call", "--rate", "50/s")
    assert known(program)["rate:call"].rate == Rate(50, burst=10)
    run("queues", "limit", "mail", "--concurrency", "2")
    told = run("queues", "limit", "mail", "--rate", "7/s", "--json")
    assert (json.loads(told.output)["concurrency"], json.loads(told.output)["rate"]) == (2, 7)
    assert known(program)["queue:mail"] == Limit("queue:mail", 2, Rate(7))


def test_a_share_is_weighed_and_let_go(run: Callable[..., Result], program: Program) -> None:
    program.enqueue(queue="mail")
    assert "fair:mail#a%2Bb: weight 3." in run("limits", "share", "mail", "a+b", "3").output
    assert known(program)["fair:mail#a%2Bb"] == Limit("fair:mail#a%2Bb", weight=3)
    assert "fair:mail#a%2Bb\t0\t-\t-\t-\t-\t-\ttrue\t3" in run("limits").output
    told = json.loads(run("limits", "share", "mail", "a+b", "auto", "--json").output)
    assert told == {"name": "fair:mail#a%2Bb", "weight": None}
    assert "fair:mail#a%2Bb" not in known(program)


@pytest.mark.parametrize(
    "arguments, words, code",
    [
        (("set", "smpt", "--concurrency", "1"), "did you mean resource:smtp?", 1),
        (("set", "queue:mial", "--concurrency", "1"), "no queue is named 'mial'", 1),
        (("share", "mial", "gold", "3"), "no queue is named 'mial'", 1),
        (("set", "smtp", "--burst", "some"), "'some' must be a whole number from 1 on", 2),
        (("share", "mail", "gold", "0"), "must be 1 to 1,000, or auto", 2),
        (("share", "a b", "gold", "1"), "queue 'a b': must be", 2),
        (("share", "mail", "a\nb", "1"), "at most 255 characters", 2),
        (("reset", "zzz"), "no limit is named 'resource:zzz'", 1),
        (("set", "smtp"), "say --concurrency, --rate or both", 2),
        (("set", "smtp", "--concurrency", "0"), "'0' must be 1 to 1,000,000", 2),
        (("set", "smtp", "--rate", "0/s"), "'0/s' must be like 100/s", 2),
        (("set", "smtp", "--concurrency", "1", "--burst", "2"), "--burst needs a --rate", 2),
        (("set", "rate:call", "--concurrency", "1"), "can only have a rate", 2),
        (("set", "smtp", "--concurrency", "²"), "'²' must be 1 to 1,000,000", 2),
        (("set", "smtp", "--rate", "1/s", "--burst", "1000001"), "Rate(burst=1000001)", 2),
    ],
)
def test_mistakes_are_told(
    run: Callable[..., Result], arguments: tuple[str, ...], words: str, code: int
) -> None:
    result = run("limits", *arguments)
    assert words in result.stderr
    assert result.exit_code == code


def test_a_queue_is_not_limited_and_let_go_in_one_breath(
    run: Callable[..., Result], program: Program
) -> None:
    program.enqueue(queue="mail")
    result = run("queues", "limit", "mail", "--off", "--concurrency", "2")
    assert "--off and a limit: say one of them" in result.stderr
    assert result.exit_code == 2
