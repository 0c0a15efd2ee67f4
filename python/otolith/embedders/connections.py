"""Requests that end by their deadline, whatever the server does.

The time limits of HTTP clients count silence: a server that says a little now and then holds a request for
ever, and a name that is looked up has no limit at all. So each request runs in a thread of its own, and when
its time is up its connection is shut down and the caller goes on.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["Connections", "OutOfTime", "Reply", "Unacceptable"]

_CONNECT_TIMEOUT = 10.0
_IDLE = 4


class Reply(NamedTuple):
    """What a server answered.

    Attributes:
        status: HTTP status.
        headers: Names in lower case.
        content: The body.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes


class OutOfTime(Exception):
    """There was no whole answer within the time limit."""


class Unacceptable(Exception):
    """The answer is not read on: too large, or encoded although that was not asked for."""


class Connections:
    """Connections to one server, kept for the next request. Safe to use from many threads and after a fork.

    Args:
        proxied: Whether the proxy of the environment is used.
    """

    def __init__(self, *, proxied: bool) -> None:
        self._proxied = proxied
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._idle: list[_Line] = []
        self._tls: ssl.SSLContext | None = None

    def post(
        self, url: str, content: bytes, headers: Mapping[str, str], *, seconds: float, limit: int
    ) -> Reply:
        """Sends one request and reads the answer.

        Args:
            url: Where to.
            content: The body.
            headers: Its headers; no encoding of the answer is accepted.
            seconds: Limit for everything, from looking up the name to the last byte.
            limit: Most bytes of an answer.

        Raises:
            OutOfTime: The time is up; the connection is closed.
            Unacceptable: The answer is larger than `limit`, or encoded.
            httpx.HTTPError: As httpx raises it.
        """
        line = self._take()
        box: list[Reply | BaseException] = []
        over = threading.Event()

        def work() -> None:
            try:
                box.append(line.post(url, content, headers, seconds=seconds, limit=limit))
            except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
                box.append(error)
            finally:
                line.leave()
                over.set()

        line.enter()
        try:
            threading.Thread(target=work, name="otolith-request", daemon=True).start()
        except RuntimeError as error:  # no thread to be had: too many, or the interpreter is about to end
            line.leave()
            line.close()
            raise OutOfTime(f"the request could not begin ({error})") from None
        try:
            answered = over.wait(seconds)
        except BaseException:
            line.abandon()
            raise
        if not answered:
            line.abandon()
            raise OutOfTime(f"no whole answer within {seconds:.1f} s")
        answer = box[0]
        if isinstance(answer, BaseException):
            line.abandon()
            raise answer
        self._give_back(line)
        return answer

    def close(self) -> None:
        """Closes the connections that are not in use; they are opened again when needed."""
        self._leave_parent()
        with self._lock:
            idle, self._idle = self._idle, []
        for line in idle:
            line.close()

    def _take(self) -> _Line:
        import httpx

        self._leave_parent()
        with self._lock:
            if self._idle:
                return self._idle.pop()
        # Tens of milliseconds, outside the lock; two threads may do it at once, and either result will do.
        tls = self._tls
        if tls is None:
            tls = self._tls = httpx.create_ssl_context(trust_env=self._proxied)
        return _Line(httpx.Client(follow_redirects=False, trust_env=self._proxied, verify=tls))

    def _leave_parent(self) -> None:
        """Leaves connections and lock to the parent, if this is a forked child: nobody here gives it back."""
        if self._owner != os.getpid():
            self._lock, self._idle, self._owner = threading.Lock(), [], os.getpid()

    def _give_back(self, line: _Line) -> None:
        self._leave_parent()
        with self._lock:
            if len(self._idle) < _IDLE:
                self._idle.append(line)
                return
        line.close()


class _Line:
    """One connection, used by one request at a time.

    Args:
        client: A client of its own.
    """

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._abandoned = False
        self._busy = False

    def enter(self) -> None:
        """Says that a request begins."""
        self._busy = True

    def post(
        self, url: str, content: bytes, headers: Mapping[str, str], *, seconds: float, limit: int
    ) -> Reply:
        """As `Connections.post`, without a promise on time."""
        import httpx

        end = time.monotonic() + seconds
        request = self._client.build_request(
            "POST",
            url,
            content=content,
            headers={**headers, "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(seconds, connect=min(seconds, _CONNECT_TIMEOUT)),
            extensions={"trace": self._trace},
        )
        answer = self._client.send(request, stream=True)
        try:
            encoding = answer.headers.get("content-encoding", "identity").strip().lower()
            if encoding not in ("", "identity"):
                raise Unacceptable(f"sent an answer encoded as {encoding[:40]!r}, which was not asked for")
            parts: list[bytes] = []
            size = 0
            for part in answer.iter_raw():
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise Unacceptable(f"answered with more than {limit} bytes")
                if time.monotonic() > end:
                    raise OutOfTime(f"no whole answer within {seconds:.1f} s")
        finally:
            answer.close()
        return Reply(answer.status_code, dict(answer.headers.items()), b"".join(parts))

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        """Keeps a second handle of each socket: shutting that down wakes whoever waits for the first."""
        if not event.endswith("connect_tcp.complete"):
            return
        opened = info["return_value"].get_extra_info("socket")
        with self._lock:
            before, self._socket = self._socket, None if self._abandoned else opened.dup()
            if self._abandoned:
                with contextlib.suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)
        if before is not None:
            before.close()

    def abandon(self) -> None:
        """Shuts the connection down; whoever waits for it comes back with an error and closes the rest."""
        with self._lock:
            self._abandoned = True
            opened, self._socket = self._socket, None
            busy = self._busy
        if opened is not None:
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()
        if not busy:
            self.close()

    def leave(self) -> None:
        """Says that the request is over."""
        with self._lock:
            self._busy = False
            abandoned = self._abandoned
        if abandoned:
            self.close()

    def close(self) -> None:
        """Closes the connection, which nobody uses."""
        with self._lock:
            opened, self._socket = self._socket, None
        with contextlib.suppress(Exception):
            self._client.close()
        if opened is not None:
            opened.close()
