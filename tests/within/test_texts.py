"""If these fail, what a caller's driver is given is not what arrives."""

from datetime import UTC
from typing import Any
from uuid import UUID

import psycopg
import psycopg2
from hypothesis import given
from hypothesis import strategies as st

from detent.stores.postgres.foreign import Caller, Psycopg2Caller, PsycopgCaller, as_text, run_now
from detent.testing.postgres import TemporaryPostgres

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.one_of(
    st.tuples(st.just("text"), TEXTS),
    st.tuples(st.just("bytea"), st.binary()),
    st.tuples(st.just("float8"), st.floats(allow_nan=False)),
    st.tuples(st.just("timestamptz"), st.datetimes(timezones=st.just(UTC))),
    st.tuples(st.just("uuid"), st.uuids()),
    st.tuples(st.just("smallint"), st.integers(-100, 100)),
    st.tuples(st.just("text[]"), st.lists(st.none() | TEXTS)),
    st.tuples(st.just("bytea[]"), st.lists(st.binary())),
    st.tuples(st.just("float8[]"), st.lists(st.floats(allow_nan=False))),
    st.tuples(st.just("uuid[]"), st.lists(st.uuids())),
)


def test_values_mean_what_the_driver_means(postgres_server: TemporaryPostgres) -> None:
    """Written as text by us and in its own way by psycopg, a value is the same to the server."""
    with psycopg.connect(postgres_server.url()) as connection:

        @given(VALUES)
        def check(typed: tuple[str, Any]) -> None:
            kind, value = typed
            sql = f"SELECT %s::{kind} = %s::{kind}"
            row = connection.execute(sql.encode(), [value, as_text(value)]).fetchone()
            assert row == (True,)

        check()


def test_texts_come_back_through_every_driver(postgres_server: TemporaryPostgres) -> None:
    url = postgres_server.url()
    with psycopg.connect(url) as modern, psycopg2.connect(url) as older:
        callers: list[Caller] = [PsycopgCaller(modern), Psycopg2Caller(older)]

        @given(st.none() | TEXTS, st.uuids(), TEXTS)
        def check(text: str | None, number: UUID, element: str) -> None:
            sql = "SELECT $1::text AS text, $2::uuid AS id, ($3::text[])[2] AS element, '%' AS sign"
            for caller in callers:
                (row,) = run_now(caller.fetch(sql, [text, number, [None, element]]))
                assert row == {"text": text, "id": number, "element": element, "sign": "%"}

        check()
    older.close()
