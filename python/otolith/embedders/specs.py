"""From a spec to an embedder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otolith.exceptions import InvalidInput

from .base import Embedder, spec_of
from .objects import load, wrap

if TYPE_CHECKING:
    from otolith.config import Settings

__all__ = ["build", "from_home", "resolve"]

_KINDS = "none, auto, hash:N, openai:MODEL, python:module:object"


def resolve(
    spec: object, *, url: str | None = None, key: str | None = None, timeout: float | None = None
) -> Embedder | None:
    """The embedder a spec stands for.

    Nothing is downloaded, no server is asked, and nothing heavy is imported but what `python:` names.

    Args:
        spec: `none`, `auto`, `hash:N`, `openai:MODEL`, `python:module:object`, None, or an object.
        url: Base URL for `openai:`; default: the setting `embedder_url`, else OpenAI's if there is a key.
        key: Key for `openai:`; default: the setting `embedder_key`.
        timeout: Seconds for one request.

    Returns:
        The embedder; None for `none`, None, and `auto` when none is set.

    Raises:
        InvalidInput: It is no spec.
        EmbedderUnavailable: What it needs is not installed or cannot be imported.
    """
    if spec == "auto" or (isinstance(spec, str) and spec.startswith("openai:") and url is None):
        from otolith.config import resolve as settings_of

        settings = settings_of()
        url = url if url is not None else settings.get("embedder_url")
        key = key if key is not None else settings.get("embedder_key")
        if spec == "auto":
            chosen = settings.get("embedder")
            spec = None if chosen == "auto" else chosen
    return build(spec, url=url, key=key, timeout=timeout)


def build(
    spec: object, *, url: str | None = None, key: str | None = None, timeout: float | None = None
) -> Embedder | None:
    """As `resolve`, from the arguments alone."""
    if spec is None:
        return None
    if not isinstance(spec, str):
        return wrap(spec)
    spec = spec.strip()
    kind, _, rest = spec.partition(":")
    if spec == "none":
        return None
    if kind == "hash":
        if not (rest.isascii() and rest.isdigit()):
            raise InvalidInput(f"embedder: {spec!r} needs a width, as in hash:256", field="embedder")
        from .hashed import HashEmbedder

        return HashEmbedder(int(rest[:9]))
    if kind == "openai":
        from .openai import DEFAULT_TIMEOUT, OpenAIEmbedder

        return OpenAIEmbedder(rest, url=url, key=key, timeout=timeout or DEFAULT_TIMEOUT)
    if kind == "python":
        return load(rest)
    raise InvalidInput(f"embedder: {spec!r} is not one of {_KINDS}", field="embedder")


def from_home(mark: str, settings: Settings) -> tuple[Embedder | None, str]:
    """The embedder a home was made with, if it can be had without loading code or calling unasked servers.

    Args:
        mark: Fingerprint the home's vectors are stored under.
        settings: The caller's settings.

    Returns:
        The embedder, or None and why not.
    """
    spec = spec_of(mark)
    kind = spec.partition(":")[0]
    url, key = settings.get("embedder_url"), settings.get("embedder_key")
    if kind == "given":
        return None, "the vectors of this home were given by the caller; give the query's too"
    if kind == "openai" and url is None and key is None:  # else questions would go to a server nobody named
        return None, f"this home uses {spec}; set OTOLITH_EMBEDDER_URL to the server that has it"
    if kind not in ("hash", "openai"):
        return None, f"this home uses {spec}; ask for it with `otolith config set embedder {spec}`"
    if not settings.may_follow_embedder(spec):
        trust = f"`otolith trust {settings.home}`"
        return None, f"this home uses {spec} and is not trusted; look at it, then say {trust}"
    embedder = build(spec, url=url, key=key)
    if embedder is None or embedder.fingerprint != mark:
        return None, f"this home uses {mark}, which this version cannot make"
    return embedder, "home"
