"""If these fail, the usual parameters of a PostgreSQL URL make every connection fail."""

from detent import App
from detent.config import Config
from detent.databases import migrate_store

USUAL = (
    "connect_timeout=10&keepalives=1&keepalives_idle=30&keepalives_interval=10&keepalives_count=3"
    "&channel_binding=prefer&gssencmode=disable&load_balance_hosts=random&sslmode=prefer"
    "&tcp_user_timeout=5000&target_session_attrs=any&client_encoding=utf8"
    "&options=-c%20work_mem%3D5MB&application_name=my%20shop"
)
NAMES = """
SELECT array_agg(DISTINCT application_name) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> 0
"""


async def test_a_url_with_the_usual_parameters_works_and_keeps_its_name(
    empty_postgres_url: str,
) -> None:
    sign = "&" if "?" in empty_postgres_url else "?"
    config = Config.load(f"{empty_postgres_url}{sign}{USUAL}", environ={})
    await migrate_store(config)
    app = App(config=config)

    @app.task(name="look")
    async def look() -> None: ...

    async with app, app.node():
        await (await look.enqueue()).result(timeout=30)
        database = app.store.database  # type: ignore[attr-defined]
        async with database.connection() as connection:
            assert await connection.fetchval("SHOW work_mem") == "5MB"
            assert await connection.fetchval(NAMES) == ["my shop"]
