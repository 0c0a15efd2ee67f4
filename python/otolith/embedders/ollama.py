"""Ollama's own `/api/embed` (docs.ollama.com/api/embed): no key, and it says what its models lack."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from typing import Any

from .naming import Name
from .serving import DEFAULT_TIMEOUT, ServerEmbedder, address, shown

__all__ = ["DEFAULT_TIMEOUT", "DEFAULT_URL", "OllamaEmbedder"]

DEFAULT_URL = "http://127.0.0.1:11434"
_LOADING_SECONDS = 120.0


class OllamaEmbedder(ServerEmbedder):
    """Asks an Ollama server for vectors.

    A text that is longer than the model reads is cut by the server; versions from 0.13.5 on refuse it
    whatever `truncate` says (ollama/ollama#14186), and then it is cut here.

    Args:
        name: The model as `ollama list` names it. Its `keep_alive` is sent with every request.
        url: Address of the server; what follows its port in that of its OpenAI door is left away. Default:
            `OLLAMA_HOST`, else this machine.
        key: Sent as bearer token, for a server behind a proxy that wants one.
        timeout: Seconds for one request.
        form: As in `ModelEmbedder`.
    """

    def __init__(
        self,
        name: Name,
        *,
        url: str | None = None,
        key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        form: str | None = None,
    ) -> None:
        base = (url or _host()).strip().rstrip("/")
        for end in ("/embed", "/embeddings", "/api", "/v1"):
            base = base.removesuffix(end)
        parts = address(base, DEFAULT_URL)
        super().__init__(
            "ollama",
            name,
            url=parts._replace(path=f"{parts.path}/api/embed").geturl(),
            shown=shown(parts),
            key=key,
            timeout=timeout,
            form=form,
        )
        self._keep_alive: str | int | None = name.keep_alive
        if name.keep_alive is not None:
            with suppress(ValueError):
                self._keep_alive = int(name.keep_alive)  # seconds; a text without unit is refused
        self._loading = threading.Lock()

    def _body(self, texts: list[str]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "input": texts, "truncate": True}
        if self._keep_alive is not None:
            body["keep_alive"] = self._keep_alive
        if self._ask_dimensions:
            body["dimensions"] = self._cut
        return body

    def _missing(self, told: str) -> str:
        if "model" in told.lower():
            return f"HTTP 404: {told}; get it with `ollama pull {self._model}`"
        return (
            f"HTTP 404: {told}; there is no /api/embed: the server is older than 0.3 or is no Ollama, for "
            "which there is openai:MODEL"
        )

    def _parsed(self, content: bytes, texts: int) -> list[Any]:
        try:
            rows = json.loads(content)["embeddings"]
            if not isinstance(rows, list):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise self._no_rows(content) from None
        # Nothing says which text a row belongs to: with another count each text is asked for alone.
        return rows if len(rows) == texts else [None] * texts

    def _out_of_time(self) -> None:
        """Has the model loaded without anybody waiting for it.

        Ollama stops loading a model when the request goes away that wanted it, so a limit of some seconds
        would never see a large one loaded.
        """
        if self._loading.acquire(blocking=False):
            try:
                threading.Thread(target=self._load, name="otolith-load", daemon=True).start()
            except RuntimeError:
                self._loading.release()

    def _load(self) -> None:
        try:
            content = json.dumps(self._body([])).encode()
            headers = {"Content-Type": "application/json"}
            if self._key is not None:
                headers["Authorization"] = f"Bearer {self._key}"
            with suppress(Exception):
                self._connections.post(self._url, content, headers, seconds=_LOADING_SECONDS, limit=1 << 20)
        finally:
            # Not at once again when the server answers nothing at all.
            time.sleep(1.0)
            self._loading.release()


def _host() -> str:
    """The server that `OLLAMA_HOST` names; scheme and port may be left out, as Ollama's own client has it."""
    host = os.environ.get("OLLAMA_HOST", "").strip()
    if not host:
        return DEFAULT_URL
    parts = address(host if "://" in host else f"http://{host}", DEFAULT_URL)
    name = (
        "127.0.0.1" if parts.hostname == "0.0.0.0" else parts.hostname or ""
    )  # that one is no address to ask
    port = parts.port or {"https": 443}.get(parts.scheme, 80 if "://" in host else 11434)
    return f"{parts.scheme}://{f'[{name}]' if ':' in name else name}:{port}{parts.path}"
