"""A real HTTP server on this machine that notes what it gets and answers as it is told to."""

import ssl
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Request(NamedTuple):
    """What somebody has sent."""

    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """What is said to it."""

    status: int = 204
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""


OK = Answer()


def self_signed(folder: Path) -> Path:
    """Write a certificate for 127.0.0.1 and its key into one file, and return its path."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "detent tests")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


class Receiver:
    """Answers each request with what `answer` returns for it; on threads.

    With `keep_alive` it takes several requests from one connection; with a file of `self_signed`
    it speaks TLS.
    """

    def __init__(self, *, keep_alive: bool = False, certificate: Path | None = None) -> None:
        self.connections = 0
        self.requests: list[Request] = []
        self.answers: list[Answer] = []
        self.answer: Callable[[Request], Answer] = self._next_answer
        self._news = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1" if keep_alive else "HTTP/1.0"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                receiver.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = receiver.take(Request(self.path, dict(self.headers.items()), body))
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                """Senders that are killed hang up; that is what some tests are about."""

        self._server = Server(("127.0.0.1", 0), Handler)
        # One that keeps a connection open must not keep a test from ending.
        self._server.block_on_close = not keep_alive
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        scheme = "http" if certificate is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def take(self, request: Request) -> Answer:
        with self._news:
            self.requests.append(request)
            self._news.notify_all()
        return self.answer(request)

    def _next_answer(self, _request: Request) -> Answer:
        return self.answers.pop(0) if self.answers else OK

    def wait_for(self, holds: Callable[[list[Request]], bool], patience: float = 30.0) -> bool:
        """Wait until the requests so far are as wanted."""
        with self._news:
            return self._news.wait_for(lambda: holds(self.requests), patience)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
