"""If these fail, a queue that was said to share fairly does not, and nobody is told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detent import App
from detent.config import Config, QueueConfig
from detent.errors import ConfigError
from detent.model.limits import Limit
from detent.stores.memory import MemoryNotifier, MemoryStore

Load = Callable[..., Config]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a configuration from the text of a file and variables."""

    def load(text: str = "", **environ: str) -> Config:
        file = tmp_path / "detent.toml"
        file.write_text(text)
        return Config.load(path=file, environ=environ)

    return load


FAIR = '[queues.mail-out]\nfair_key = "tenant"\nweights = { gold = 3 }\n'


def test_queues_are_read_from_the_file_and_from_variables(load: Load) -> None:
    assert load(FAIR).queues == {"mail-out": QueueConfig("tenant", {"gold": 3})}
    changed = load(FAIR, DETENT_QUEUES_MAIL_OUT_WEIGHTS="gold=5,tin=2")
    assert changed.queues == {"mail-out": QueueConfig("tenant", {"gold": 5, "tin": 2})}
    assert load("[queues.mail]").queues == {"mail": QueueConfig()}


@pytest.mark.parametrize(
    "text, words",
    [
        ("[queues.mail]\nweights = { a = 1 }", r"\[queues.mail\] weights: weigh nothing without"),
        ('[queues.mail]\nfair_key = ""', r"\[queues.mail\] fair_key = '': must be the name of"),
        ("[queues.mail]\nfair_key = 3", r"\[queues.mail\] fair_key = 3: must be the name of"),
        ('[queues.mail]\nfair = "t"', "fair: unknown key; did you mean .* fair_key"),
        ("[queues]\nmail = 3", r"\[queues\] mail: a queue has a name"),
        ('[queues."a b"]\nfair_key = "t"', "the queue 'a b': must be"),
        (
            '[queues.mail]\nfair_key = "t"\nweights = { a = 0 }',
            "the key 'a' must weigh 1 to 1,000, not 0",
        ),
        ('[queues.mail]\nfair_key = "t"\nweights = 3', "must name keys and their weights"),
    ],
)
def test_mistakes_are_told(load: Load, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load(text)


@pytest.mark.parametrize("queues", [3, {"mail": "tenant"}, {"a b": QueueConfig("t")}])
def test_what_a_program_passes_is_checked(queues: Any) -> None:
    with pytest.raises(ConfigError, match="queue"):
        Config(queues=queues)


def test_what_is_configured_holds_unless_code_says_otherwise(load: Load) -> None:
    app = App(config=load(FAIR), store=MemoryStore(), notifier=MemoryNotifier())

    @app.task(queue="mail-out")
    async def send(tenant: str, customer: str) -> None: ...

    call = send.bind("acme", "7")
    assert app.client.prepare(call).job.lane == "mail-out~fair:mail-out#acme"
    assert app._all_limits() == [Limit("fair:mail-out#gold", weight=3)]
    app.queue("mail-out", fair_key="customer", weights={"7": 2})
    assert app.client.prepare(call).job.lane == "mail-out~fair:mail-out#7"
    assert app._all_limits() == [Limit("fair:mail-out#7", weight=2)]
