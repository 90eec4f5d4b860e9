"""If these fail, a slip costs a search through the reference instead of one line."""

from pathlib import Path
from typing import Annotated, Any

import annotated_types
import msgspec
import pydantic
import pytest

from detent import App, ConfigError
from detent.config import Config
from detent.config.readers import read_queues
from detent.errors import InvalidArguments


@pytest.mark.parametrize(
    "option, meant",
    [("retrys", "retry"), ("prioritty", "priority"), ("concurency", "concurrency")],
)
def test_a_misspelt_option_of_a_task_names_the_right_one(option: str, meant: str) -> None:
    declare: Any = App("memory://").task
    with pytest.raises(ConfigError, match=f"'{option}': unknown option; did you mean {meant}\\?"):
        declare(**{option: 1})


def test_a_misspelt_option_of_a_call_names_the_right_one() -> None:
    app = App("memory://")

    @app.task
    async def work() -> None: ...

    with pytest.raises(ConfigError, match=r"'dellay': unknown option; did you mean delay\?"):
        work.bind().with_options(dellay=5)


def test_an_option_unlike_any_other_lists_them() -> None:
    declare: Any = App("memory://").task
    with pytest.raises(ConfigError, match=r"'zzz': unknown option; the options are .*timeout"):
        declare(zzz=1)


def test_queues_with_a_colon_name_the_right_sign() -> None:
    with pytest.raises(ValueError, match=r"did you mean mail=20\?"):
        read_queues("mail:20,default=5")


def test_a_key_that_is_not_needed_says_so(tmp_path: Path) -> None:
    file = tmp_path / "detent.toml"
    file.write_text('[cluster]\ndiscovery = "multicast"\n')
    with pytest.raises(ConfigError, match=r"discovery: not needed: nodes find each other in the"):
        Config.load(path=file, environ={})


class TestConstraints:
    """A limit in an annotation is kept, or refused where it would be ignored."""

    @pytest.mark.parametrize(
        "type_",
        [
            Annotated[int, pydantic.Field(ge=1)],
            Annotated[int, annotated_types.Ge(1)],
            list[Annotated[str, pydantic.Field(max_length=3)]],
            Annotated[int, pydantic.Field(ge=1)] | None,
        ],
    )
    def test_those_of_pydantic_are_refused(self, type_: Any) -> None:
        async def work(number: Any) -> None: ...

        work.__annotations__["number"] = type_
        with pytest.raises(ConfigError, match=r"number .*would not be checked; use msgspec\.Meta"):
            App("memory://").task(work)

    def test_what_limits_nothing_is_taken(self) -> None:
        async def work(number: Annotated[int, pydantic.Field(description="x"), "note"]) -> None: ...

        App("memory://").task(work)

    async def test_those_of_msgspec_are_kept(self) -> None:
        app = App("memory://")

        @app.task
        async def work(number: Annotated[int, msgspec.Meta(ge=1)]) -> None: ...

        async with app:
            await work.enqueue(1)
            with pytest.raises(InvalidArguments, match=">= 1"):
                await work.enqueue(0)
