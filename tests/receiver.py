"""A real HTTP server on this machine that notes what it gets and answers as it is told to."""

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple


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


class Receiver:
    """Answers each request with what `answer` returns for it; on threads."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: list[Answer] = []
        self.answer: Callable[[Request], Answer] = self._next_answer
        self._news = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
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
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
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
