"""If these fail, a receiver cannot trust what it gets, or we shout at one that is not there."""

import asyncio
import hashlib
import hmac
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from uuid import UUID

import pytest

from detent import ConfigError
from detent.errors import DeliveryFailed
from detent.sinks import WebhookSink, verify_signature
from detent.sinks.signature import sign
from detent.spi.outbox import AlertInfo, OutboxEvent
from tests.receiver import Answer, Receiver

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
ERROR = json.dumps({"type": "OSError", "message": "no route", "traceback": "secret"}).encode()
EVENT = OutboxEvent(
    id=7,
    sink="billing",
    kind="failed",
    job=UUID(int=1),
    task="shop.größe",
    queue="mail",
    generation=1,
    attempt=3,
    at=NOW,
    duration=1.5,
    node=UUID(int=2),
    reason=None,
    error=ERROR,
    alert=None,
    tries=1,
)
ALERT = AlertInfo(
    id=3,
    task="shop.send",
    fingerprint="abc",
    type="OSError",
    message="no route to <text>",
    frame="shop/mail.py:send",
    window_start=NOW,
    first_job=UUID(int=1),
    last_job=UUID(int=9),
    first_at=NOW,
    last_at=NOW,
    times=10_000,
    delivered_at=None,
    acked_at=None,
    acked_by=None,
)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


async def test_an_event_is_posted_as_json(receiver: Receiver) -> None:
    sink = WebhookSink(f"{receiver.url}/hooks?x=1", headers={"Authorization": "Bearer x"})
    await sink.deliver(EVENT, None)
    ((path, headers, body),) = receiver.requests
    assert path == "/hooks?x=1"
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Detent-Event"] == "job.failed"
    assert headers["X-Detent-Event-Id"] == "7"
    assert headers["Authorization"] == "Bearer x"
    assert "X-Detent-Signature" not in headers
    assert abs(int(headers["X-Detent-Timestamp"]) - datetime.now(UTC).timestamp()) < 60
    assert json.loads(body) == {
        "id": 7,
        "type": "job.failed",
        "sink": "billing",
        "job": {
            "id": str(UUID(int=1)),
            "task": "shop.größe",
            "queue": "mail",
            "state": "failed",
            "generation": 1,
            "attempt": 3,
            "ended_at": "2030-01-01T12:00:00+00:00",
            "duration": 1.5,
            "node": str(UUID(int=2)),
            "reason": None,
            "error": {"type": "OSError", "message": "no route"},
        },
    }
    assert b"secret" not in body, "a traceback is not for others"


async def test_an_alert_is_posted_with_its_count(receiver: Receiver) -> None:
    event = EVENT._replace(kind="alert", alert=3, error=None)
    await WebhookSink(receiver.url).deliver(event, ALERT)
    ((path, headers, body),) = receiver.requests
    assert (path, headers["X-Detent-Event"]) == ("/", "alert.raised")
    alert = json.loads(body)["alert"]
    assert (alert["count"], alert["task"], alert["fingerprint"]) == (10_000, "shop.send", "abc")
    assert alert["error"] == {
        "type": "OSError",
        "message": "no route to <text>",
        "frame": "shop/mail.py:send",
    }


async def test_an_error_that_cannot_be_read_here_is_not_sent(receiver: Receiver) -> None:
    await WebhookSink(receiver.url).deliver(EVENT._replace(error=b"\x00sealed"), None)
    error = json.loads(receiver.requests[0][2])["job"]["error"]
    assert error == {"type": "unknown", "message": "it cannot be read here"}


async def test_a_signed_request_can_be_verified(receiver: Receiver) -> None:
    await WebhookSink(receiver.url, secret=("new one", b"old one")).deliver(EVENT, None)
    ((_, headers, body),) = receiver.requests
    for secret in ("new one", "old one", b"old one", ["other", "new one"]):
        assert verify_signature(body, headers, secret)
    lower = {name.lower(): value for name, value in headers.items()}
    assert verify_signature(body, lower, "new one")
    assert not verify_signature(body, headers, "wrong")
    assert not verify_signature(body + b" ", headers, "new one")
    assert not verify_signature(body, {}, "new one")
    stamp = int(headers["X-Detent-Timestamp"])
    assert not verify_signature(body, headers | {"X-Detent-Timestamp": str(stamp + 1)}, "new one")
    sent = datetime.fromtimestamp(stamp, UTC)
    late = sent + timedelta(minutes=5, seconds=1)
    assert not verify_signature(body, headers, "new one", now=late), "somebody sends it again"
    assert verify_signature(body, headers, "new one", now=late, tolerance=timedelta(hours=1))
    assert not verify_signature(body, headers, "new one", now=sent - timedelta(hours=1))


@pytest.mark.parametrize("stamp", ["", "-5", "1e9", "nonsense", "١٢٣", "9" * 400])
def test_a_stamp_that_is_none_is_no_signature(stamp: str) -> None:
    headers = {"X-Detent-Timestamp": stamp, "X-Detent-Signature": "v1=aa"}
    assert not verify_signature(b"", headers, "secret")


def test_the_signature_is_the_documented_one() -> None:
    digest = hmac.new(b"secret", b"1700000000.{}", hashlib.sha256).hexdigest()
    assert sign(b"{}", 1_700_000_000, ["secret"]) == f"v1={digest}"


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_any_success_is_a_delivery(receiver: Receiver, status: int) -> None:
    receiver.answers = [Answer(status, {}, b"")]
    await WebhookSink(receiver.url).deliver(EVENT, None)


@pytest.mark.parametrize(
    "status, refused",
    [(500, False), (503, False), (429, False), (408, False), (404, True), (400, True)],
)
async def test_an_answer_says_whether_to_try_again(
    receiver: Receiver, status: int, refused: bool
) -> None:
    receiver.answers = [Answer(status, {}, "größe\x1b nein".encode())]
    with pytest.raises(DeliveryFailed, match=f"HTTP {status}: größe nein") as caught:
        await WebhookSink(receiver.url).deliver(EVENT, None)
    assert caught.value.refused is refused
    assert caught.value.retry_after is None


@pytest.mark.parametrize(
    "value, seconds",
    [
        ("120", 120),
        ("99999999999999999999", 100_000_000),
        ("soon", None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("-5", None),
        ("in an hour", 3600),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
    ],
)
async def test_a_receiver_says_for_how_long(
    receiver: Receiver, value: str, seconds: float | None
) -> None:
    if value == "in an hour":
        value = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    receiver.answers = [Answer(429, {"Retry-After": value}, b"")]
    with pytest.raises(DeliveryFailed) as caught:
        await WebhookSink(receiver.url).deliver(EVENT, None)
    found = caught.value.retry_after
    assert (None if found is None else found.total_seconds()) == (
        seconds if seconds is None else pytest.approx(seconds, abs=60)
    )


async def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.answers = [Answer(302, {"Location": f"{receiver.url}/elsewhere"}, b"")]
    with pytest.raises(DeliveryFailed, match="redirects are not followed") as caught:
        await WebhookSink(receiver.url, secret="s").deliver(EVENT, None)
    assert caught.value.refused
    assert len(receiver.requests) == 1


async def test_nobody_there_is_a_failure_to_be_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(DeliveryFailed, match="ConnectionRefusedError") as caught:
        await WebhookSink(f"http://127.0.0.1:{port}").deliver(EVENT, None)
    assert not caught.value.refused


async def test_somebody_who_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(DeliveryFailed, match=r"[Tt]imed out|TimeoutError"):
            await WebhookSink(url, timeout=0.05).deliver(EVENT, None)


async def test_an_answer_without_end_is_a_delivery_when_it_says_so() -> None:
    """For instance of somebody who streams; a delivery is what the first line says."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sink = WebhookSink(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=10)
        delivering = asyncio.ensure_future(sink.deliver(EVENT, None))
        connection, _ = await asyncio.to_thread(server.accept)
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hi")
            await asyncio.wait_for(delivering, 5)


async def test_somebody_who_answers_drop_by_drop_is_hung_up_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sink = WebhookSink(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=60)
        delivering = asyncio.ensure_future(sink.deliver(EVENT, None))
        connection, _ = await asyncio.to_thread(server.accept)
        with connection:
            while b"}}" not in await asyncio.to_thread(connection.recv, 10_000):
                pass
            connection.sendall(b"HTTP/1.1 200 O")
            delivering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await delivering
            with suppress(ConnectionResetError):
                assert await asyncio.to_thread(connection.recv, 10) == b""


@pytest.mark.parametrize(
    "url, place",
    [
        ("http://[::1]/hook", ("::1", 80)),
        ("https://[::1]/hook", ("::1", 443)),
        ("http://[::1]:8080/hook", ("::1", 8080)),
        ("https://example.com", ("example.com", 443)),
    ],
)
def test_the_port_is_the_one_of_the_url(url: str, place: tuple[str, int]) -> None:
    client = WebhookSink(url)._client
    assert (client.host, client.port) == place


@pytest.mark.parametrize("secret", ["", b"", [], ["good", ""], None])
def test_nobody_can_sign_with_a_secret_that_is_none(secret: Any) -> None:
    stamp = int(NOW.timestamp())
    headers = {
        "X-Detent-Timestamp": str(stamp),
        "X-Detent-Signature": sign(b"{}", stamp, ["", "good"]),
    }
    with pytest.raises(ConfigError, match=r"secret = \.\.\.: must be a text or bytes, not"):
        verify_signature(b"{}", headers, secret, now=NOW)


@pytest.mark.parametrize(
    "url, why",
    [
        ("ftp://example.com", "must begin with http:// or https://"),
        ("file:///etc/passwd", "must begin with http:// or https://"),
        ("example.com/hook", "must begin with http:// or https://"),
        ("https://", "names no host"),
        ("https:///path", "names no host"),
        ("https://example.com:99999", "Port out of range"),
        ("https://exa mple.com", "must be a text like"),
        ("https://example.com/\r\nX: y", "must be a text like"),
        ("https://exämple.com", "must be written in ASCII"),
        ("https://user:hunter2@example.com/x", "send them with headers="),
        (None, "must be a text like"),
    ],
)
def test_a_url_that_cannot_be_right_is_refused_at_once(url: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=f"url = .*{why}") as caught:
        WebhookSink(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "settings, why",
    [
        ({"secret": ""}, "secret = ...: must be a text or bytes, not empty"),
        ({"secret": []}, "secret = ...: must be"),
        ({"secret": ["good", ""]}, "secret = ...: must be"),
        ({"secret": 5}, "secret = ...: must be"),
        ({"timeout": 0}, "timeout = 0: must be"),
        ({"timeout": "5"}, "timeout = '5': must be"),
        ({"timeout": True}, "timeout = True: must be"),
        ({"headers": 5}, "headers = 5: must be a dict"),
        ({"headers": {1: "x"}}, "headers = 1: must be a text"),
        ({"headers": {"X-Good": 5}}, "headers = 'X-Good': must be a text"),
        ({"timeout": float("nan")}, "timeout = nan: must be"),
        ({"headers": {"Host": "x"}}, "'Host': this one is set by Detent itself"),
        ({"headers": {"X-Detent-Signature": "x"}}, "set by Detent itself"),
        ({"headers": {"X-Good": "a\r\nX-Bad: b"}}, "must be printable ASCII"),
        ({"headers": {"X Bad": "a"}}, "must be printable ASCII"),
    ],
)
def test_settings_that_cannot_be_right_are_refused_at_once(
    settings: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        WebhookSink("https://example.com", **settings)


def test_it_does_not_show_its_secret() -> None:
    sink = WebhookSink("https://example.com/hook?token=1", secret="s3cret")
    assert repr(sink) == "WebhookSink(https://example.com/hook)"
