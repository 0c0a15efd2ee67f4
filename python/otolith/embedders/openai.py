"""Any server that speaks OpenAI's `/embeddings`: OpenAI, Ollama, LM Studio, vLLM, llama.cpp, TEI, LiteLLM."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from otolith.exceptions import EmbedderUnavailable

from .naming import Name
from .serving import DEFAULT_TIMEOUT, ServerEmbedder, address, shown

__all__ = ["DEFAULT_TIMEOUT", "DEFAULT_URL", "OpenAIEmbedder"]

DEFAULT_URL = "https://api.openai.com/v1"


class OpenAIEmbedder(ServerEmbedder):
    """Asks a server for vectors with OpenAI's protocol (platform.openai.com/docs/api-reference/embeddings).

    Args:
        name: The model as the server names it. Its prompt form is `none` for servers that write the model's
            prompts themselves. `dimensions` is sent only with a `dim`, and left out if the server refuses it.
        url: Base URL up to and with `/v1`; default: OpenAI's own, and only with a key.
        key: Sent as bearer token; never shown or logged.
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
        if not url and not (key or "").strip():
            # Texts go only to a server that somebody chose, by its address or by having a key for it.
            raise EmbedderUnavailable(
                f"openai:{name}: no server is named; set embedder_url (a server of your own) or "
                "embedder_key (api.openai.com)",
                embedder=f"openai:{name}",
            )
        base = (url or DEFAULT_URL).strip().rstrip("/").removesuffix("/embeddings")
        parts = address(base, "http://127.0.0.1:8000/v1")
        super().__init__(
            "openai",
            name,
            url=parts._replace(path=f"{parts.path}/embeddings").geturl(),
            shown=shown(parts),
            key=key,
            timeout=timeout,
            form=form,
        )
        self._encoding_format = True

    def _body(self, texts: list[str]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "input": texts}
        if self._encoding_format:
            body["encoding_format"] = "float"
        if self._ask_dimensions:
            body["dimensions"] = self._cut
        return body

    def _adapted(self, body: dict[str, Any], told: str) -> bool:
        if "encoding_format" in body and "encoding_format" in told:
            self._encoding_format = False
            return True
        return super()._adapted(body, told)

    def _missing(self, told: str) -> str:
        return f"HTTP 404: {told}; check the model name and that the URL ends where /embeddings follows"

    def _parsed(self, content: bytes, texts: int) -> list[Any]:
        try:
            data = json.loads(content)["data"]
            if not isinstance(data, list):
                raise TypeError
            items = [(item.get("index"), _decoded(item["embedding"])) for item in data]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._no_rows(content) from None
        places = [place for place, _ in items]
        rows: list[Any] = [None] * texts
        numbered = all(isinstance(place, int) and 0 <= place < texts for place in places)
        if numbered and len(set(places)) == len(items):
            for place, row in items:
                rows[place] = row
        elif len(items) == texts:
            rows = [row for _, row in items]
        return rows


def _decoded(embedding: Any) -> Any:
    """Numbers; servers that ignore `encoding_format` send base64 of little-endian float32."""
    if not isinstance(embedding, str):
        return embedding
    import numpy as np

    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    except (binascii.Error, ValueError):
        return "is not valid base64"
