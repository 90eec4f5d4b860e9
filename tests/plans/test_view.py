"""If these fail, people with psql see bytes instead of what a job was given and came to."""

import json
from typing import Any

import pytest

from detent.model.envelope import head_of
from detent.stores.postgres import PostgresStore

PAYLOADS: list[tuple[bytes, str, Any]] = [
    ('{"args":[1],"kwargs":{"a":"ü"}}'.encode(), "json", {"args": [1], "kwargs": {"a": "ü"}}),
    (b"", "json", "<0 bytes of json>"),
    (b"\x80\x04K\x05.", "pickle", "<5 bytes of pickle>"),
    (head_of("k1") + b"\xff\xfe", "json", "<11 bytes of encrypted data>"),
    (head_of("k1") + b"\xff\xfe", "pickle", "<11 bytes of encrypted data>"),
]
_JOB = """
INSERT INTO detent.detent_job (id, task, queue, lane, priority, due_at, enqueued_at, args, codec)
VALUES (gen_random_uuid(), 't', 'q', 'q', 2, now(), now(), $1, $2) RETURNING id
"""
_OUTCOME = """
INSERT INTO detent.detent_outcome
    (id, generation, attempt, finished_at, state, task, queue, result, error)
VALUES ($1, 1, 1, now(), 'failed', 't', 'q', $2, $2)
"""


@pytest.mark.parametrize("data, codec, shown", PAYLOADS)
async def test_the_view_shows_payloads_as_json(
    postgres_url: str, data: bytes, codec: str, shown: Any
) -> None:
    connection = await PostgresStore(postgres_url).database.connect()
    try:
        job_id = await connection.fetchval(_JOB, data, codec)
        await connection.execute(_OUTCOME, job_id, data if codec == "json" else None)
        row = await connection.fetchrow("SELECT * FROM detent.detent_jobs")
    finally:
        await connection.close()
    assert row is not None
    assert row["args"] == data, "the bytes are still there"
    assert json.loads(row["args_json"]) == shown
    assert row["params_json"] is None
    if codec == "json":
        assert json.loads(row["result_json"]) == json.loads(row["error_json"]) == shown
