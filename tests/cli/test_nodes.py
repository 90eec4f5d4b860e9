"""If these fail, somebody sends away another node than he meant, or is told what is not so."""

import asyncio
from datetime import timedelta
from socket import gethostname
from uuid import UUID

from detent import App
from detent.spi.nodes import NodeIdentity
from detent.testing.conformance.builders import new_id
from tests.cli.conftest import Detent


def join(url: str, *names: str) -> list[UUID]:
    """Let nodes join that do nothing else."""

    async def join() -> list[UUID]:
        ids = [new_id() for _ in names]
        async with App(url) as app:
            for incarnation, name in zip(ids, names, strict=True):
                identity = NodeIdentity(incarnation, name, gethostname(), 1, "1", {})
                await app.store.join(identity, timedelta(minutes=1))
        return ids

    return asyncio.run(join())


def test_a_node_that_is_dead_cannot_be_drained(detent: Detent, sqlite_url: str) -> None:
    join(sqlite_url, "web-1", "web-2")
    said = detent("nodes", "drain", "web-1", DETENT_URL=sqlite_url)
    assert said.output == "web-1 is draining\n"
    asked = detent("nodes", "forget", "web-2", DETENT_URL=sqlite_url)
    assert asked.exit_code == 2
    assert "web-2 was heard of" in asked.output
    assert "say --yes" in asked.output
    said = detent("nodes", "forget", "web-2", "--yes", DETENT_URL=sqlite_url)
    assert said.output == "web-2 is dead; its jobs go to others\n"
    said = detent("nodes", "drain", "web-2", DETENT_URL=sqlite_url)
    assert said.output == "web-2 is dead already\n"
    said = detent("nodes", "drain", "web-3", DETENT_URL=sqlite_url)
    assert said.stderr == "detent: error: there is no node 'web-3'; see: detent nodes\n"


def test_of_two_with_one_name_neither_is_taken_for_the_other(
    detent: Detent, sqlite_url: str
) -> None:
    old, new = join(sqlite_url, "web-1", "web-1")
    for command in ("drain", "forget"):
        refused = detent("nodes", command, "web-1", DETENT_URL=sqlite_url)
        assert refused.exit_code == 2
        assert refused.output.startswith("detent: error: node = 'web-1': 2 nodes have that name")
        assert f"{old}, {new}" in refused.output
    assert detent("nodes", "forget", str(old), "--yes", DETENT_URL=sqlite_url).exit_code == 0
    assert detent("nodes", "drain", "web-1", DETENT_URL=sqlite_url).exit_code == 0
