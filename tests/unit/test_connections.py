"""If these fail, `within=` needs libraries that nobody asked for."""

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, sys
from detent import App, WrongConnection

app = App({url!r})

@app.task
async def send() -> None: ...

async def awaited():
    await send.options(within=object()).enqueue()

def blocking():
    send.options(within=object()).enqueue_sync()

for work in (lambda: asyncio.run(awaited()), blocking):
    try:
        work()
    except WrongConnection as error:
        assert "object" in str(error), error
    else:
        raise AssertionError("taken")
found = {{name.partition(".")[0] for name in sys.modules}} & {{
    "aiosqlite", "asyncpg", "django", "greenlet", "psycopg", "psycopg2", "sqlalchemy"
}}
assert found <= {{{driver!r}}}, found
"""


@pytest.mark.parametrize(
    "url, driver",
    [
        ("memory://", "none"),
        ("sqlite:///detent.db", "none"),
        ("postgresql://nobody@127.0.0.1:1/nowhere", "asyncpg"),
    ],
    ids=["memory", "sqlite", "postgresql"],
)
def test_no_library_is_loaded_to_recognise_its_connections(
    url: str, driver: str, tmp_path: str
) -> None:
    program = PROGRAM.format(url=url, driver=driver)
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=60)
