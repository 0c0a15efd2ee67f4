"""A real HTTP server that speaks as OpenAI's and Ollama's do, and plays the failures they are known for."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

DIM = 64


def vector(text: str, dim: int = DIM) -> list[float]:
    """Words as random directions: texts that share words are near each other."""
    total = np.zeros(dim)
    for word in text.lower().replace("?", " ").replace(".", " ").split():
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "little")
        total += np.random.default_rng(seed).standard_normal(dim)
    return [float(value) for value in total]


@dataclass
class Answer:
    """What the server says: a status, a body (JSON or bytes), headers, and how long it waits before."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0


def error(status: int, message: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"error": {"message": message}}, named)


def embeddings(rows: list[Any], indexes: list[int] | None = None) -> Answer:
    places = range(len(rows)) if indexes is None else indexes
    items = [
        {"object": "embedding", "index": at, "embedding": row} for at, row in zip(places, rows, strict=True)
    ]
    return Answer(200, {"object": "list", "data": items})


def good(request: dict[str, Any]) -> Answer:
    return embeddings([vector(text) for text in request["input"]])


def ollama_rows(rows: list[Any]) -> Answer:
    return Answer(200, {"model": "toy", "embeddings": rows, "total_duration": 1, "prompt_eval_count": 1})


def ollama(request: dict[str, Any]) -> Answer:
    """A good answer of Ollama's, which cuts vectors itself when it is told to."""
    rows = [vector(text) for text in request["input"]]
    return ollama_rows([row[: request.get("dimensions", DIM)] for row in rows])


def ollama_error(status: int, message: str) -> Answer:
    return Answer(status, {"error": message})


def as_base64(row: list[float]) -> str:
    return base64.b64encode(np.asarray(row, dtype="<f4").tobytes()).decode()


class EmbeddingServer:
    """Runs in a thread; `play` decides every answer, `requests` and `headers` are what came in."""

    def __init__(self) -> None:
        self.play: Callable[[dict[str, Any]], Answer | None] = good
        self.path = "/v1/embeddings"
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.peers: set[tuple[str, int]] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 5

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                request = json.loads(self.rfile.read(size))
                outer.requests.append(request)
                outer.peers.add(self.client_address)
                outer.headers.append(dict(self.headers.items()))
                if self.path != outer.path:
                    answer: Answer | None = Answer(404, b"404 page not found")
                else:
                    answer = outer.play(request)
                if answer is None:  # the connection breaks
                    self.close_connection = True
                    return
                if answer.wait:
                    outer._stopping.wait(answer.wait)
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                try:
                    self.send_response(answer.status)
                    self.send_header("Content-Length", str(len(body)))
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *args: object) -> None:
                pass

        self._stopping = threading.Event()
        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def texts(self) -> list[str]:
        return [text for request in self.requests for text in request["input"]]

    def __enter__(self) -> EmbeddingServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class DrippingServer:
    """Answers each request with `start`, then a `drop` every tenth of a second while anybody listens."""

    def __init__(self, start: bytes, drop: bytes) -> None:
        self._start, self._drop = start, drop
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.listening = 0
        self.served = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def _accept(self) -> None:
        while True:
            try:
                peer = self._listener.accept()[0]
            except OSError:
                return
            self.listening += 1
            self.served += 1
            threading.Thread(target=self._drip, args=(peer,), daemon=True).start()

    def _drip(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            peer.recv(1 << 20)
            peer.sendall(self._start)
            for _ in range(300):
                time.sleep(0.1)
                peer.sendall(self._drop)
        self.listening -= 1

    def __enter__(self) -> DrippingServer:
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False
