"""If these fail, one caller's job that cannot be stored fails the enqueues of other callers."""

import asyncio
from typing import Final

import pytest

from detent import App
from detent.errors import StoreUnavailable
from tests.cluster.database import connected

CALLERS: Final = 60
GUILTY: Final = (7, 31)

# A disk with little space left: small jobs fit, a large one does not, nor what is sent with it.
FULL: Final = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(NEW.args) > 10000 THEN
        {trouble}
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON detent.detent_job
    FOR EACH ROW EXECUTE FUNCTION public.refuse();
"""
TROUBLES: Final = {
    "disk": "RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100';",
    "connection": "PERFORM pg_terminate_backend(pg_backend_pid());",
}


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_only_the_caller_whose_job_does_not_fit_is_told(
    postgres_url: str, trouble: str
) -> None:
    async with App(postgres_url) as app, connected(postgres_url) as admin:

        @app.task
        async def keep(text: str) -> None: ...

        await admin.execute(FULL.format(trouble=TROUBLES[trouble]))
        texts = ["x" * (20_000 if number in GUILTY else 10) for number in range(CALLERS)]
        answers = await asyncio.gather(
            *(keep.enqueue(text) for text in texts), return_exceptions=True
        )
        told = [number for number, each in enumerate(answers) if isinstance(each, BaseException)]
        assert told == [*GUILTY]
        assert {type(answers[number]) for number in GUILTY} == {StoreUnavailable}
        stored = await admin.fetch("SELECT id FROM detent.detent_job")
        known = [each.id for each in answers if not isinstance(each, BaseException)]
        assert sorted(row["id"] for row in stored) == sorted(known)
