"""If these fail, each event costs its node a TLS handshake, or an old connection loses events."""

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent import App
from detent.errors import DeliveryFailed
from detent.sinks import WebhookSink
from tests.receiver import Answer, Receiver, self_signed
from tests.unit.test_webhook import EVENT

SIDE_BY_SIDE = 8


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    certificate = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    receiver = Receiver(keep_alive=True, certificate=certificate)
    yield receiver
    receiver.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver(keep_alive=True)
    yield receiver
    receiver.close()


async def post(sink: WebhookSink, events: int) -> None:
    """Deliver events, as many side by side as a node does."""

    async def some() -> None:
        for _ in range(events // SIDE_BY_SIDE):
            await sink.deliver(EVENT, None)

    async with asyncio.TaskGroup() as group:
        for _ in range(SIDE_BY_SIDE):
            group.create_task(some())


async def test_events_over_tls_share_few_connections_and_little_time(secure: Receiver) -> None:
    sink = WebhookSink(secure.url, secret="s3cret")
    await post(sink, SIDE_BY_SIDE)
    began = time.process_time()
    await post(sink, 400)
    spent = (time.process_time() - began) / 400
    await sink.close()
    assert len(secure.requests) == 400 + SIDE_BY_SIDE
    assert secure.connections <= SIDE_BY_SIDE
    # Of the sender and the receiver together; a new context and handshake took 36 ms.
    assert spent < 0.005, f"{spent * 1000:.2f} ms of CPU for each"


async def test_a_node_delivers_over_kept_connections_and_closes_them(secure: Receiver) -> None:
    app = App("memory://")
    ran: list[int] = []

    @app.task(name="shop.pay")
    async def pay(number: int) -> None:
        ran.append(number)

    app.sink("billing", WebhookSink(secure.url))
    async with app, app.node():
        await app.enqueue_many([pay.bind(number) for number in range(200)])
        assert await asyncio.to_thread(secure.wait_for, lambda sent: len(sent) >= 200)
    assert secure.connections <= SIDE_BY_SIDE


async def test_a_certificate_that_is_not_trusted_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver(keep_alive=True, certificate=self_signed(tmp_path))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(DeliveryFailed, match="CERTIFICATE_VERIFY_FAILED"):
        await WebhookSink(receiver.url).deliver(EVENT, None)
    receiver.close()
    assert receiver.requests == []


async def test_a_body_of_any_length_is_no_part_of_the_next_answer(receiver: Receiver) -> None:
    sink = WebhookSink(receiver.url)
    receiver.answers = [
        Answer(200, {}, b"x" * 1_000),
        Answer(200, {}, b"y" * 1_000_000),
        Answer(500, {}, b"no"),
        Answer(204, {}, b""),
    ]
    await sink.deliver(EVENT, None)
    await sink.deliver(EVENT, None)
    with pytest.raises(DeliveryFailed, match="HTTP 500: no"):
        await sink.deliver(EVENT, None)
    await sink.deliver(EVENT, None)
    await sink.close()


async def served(server: socket.socket, *answers: bytes) -> None:
    """Answer requests on one connection, and close it."""
    connection, _ = await asyncio.to_thread(server.accept)
    with connection:
        for answer in answers:
            assert await asyncio.to_thread(connection.recv, 100_000)
            connection.sendall(answer)


CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\n0\r\nX: y\r\n\r\n"
)
EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


async def test_an_answer_in_chunks_keeps_its_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sink = WebhookSink(f"http://127.0.0.1:{server.getsockname()[1]}")
        serving = asyncio.ensure_future(served(server, CHUNKED, CHUNKED, EMPTY))
        for _ in range(3):
            await sink.deliver(EVENT, None)
        await serving
        await sink.close()


async def test_a_connection_that_the_receiver_has_closed_loses_no_event() -> None:
    """The receiver may close it at the moment in which the next request is on its way."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sink = WebhookSink(f"http://127.0.0.1:{server.getsockname()[1]}")
        first = asyncio.ensure_future(served(server, EMPTY))
        await sink.deliver(EVENT, None)
        await first
        second = asyncio.ensure_future(served(server, EMPTY, b""))
        await sink.deliver(EVENT, None)
        # It hangs up only after it has read the next one: nothing could be seen before.
        third = asyncio.ensure_future(sink.deliver(EVENT, None))
        await second
        await served(server, EMPTY)
        await third
        await sink.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    ],
)
async def test_an_answer_that_is_none_is_a_failure(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sink = WebhookSink(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=10)
        serving = asyncio.ensure_future(served(server, answer))
        with pytest.raises(DeliveryFailed, match=r"no HTTP response|without an answer"):
            await sink.deliver(EVENT, None)
        await asyncio.wait([serving])


@pytest.mark.parametrize("length", [b"Content-Length: x", b"Transfer-Encoding: chunked"])
async def test_a_body_that_cannot_be_read_ends_only_its_connection(length: bytes) -> None:
    broken = b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\nnonsense\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        sink = WebhookSink(f"http://127.0.0.1:{server.getsockname()[1]}")
        serving = asyncio.ensure_future(served(server, broken))
        await sink.deliver(EVENT, None)
        await serving
        serving = asyncio.ensure_future(served(server, EMPTY))
        await sink.deliver(EVENT, None)
        await serving
        await sink.close()
