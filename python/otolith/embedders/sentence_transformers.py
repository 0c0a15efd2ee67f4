"""Models of sentence-transformers, on torch: the widest choice, and seconds to import."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .local import LocalEmbedder, directory_of, needs
from .naming import Name
from .prompts import custom, prompt_for

__all__ = ["SentenceTransformersEmbedder"]

_KIND = "sentence-transformers"
_FILES = ("modules.json",)
_SETTINGS = "config_sentence_transformers.json"


class SentenceTransformersEmbedder(LocalEmbedder):
    """A `SentenceTransformer` from the hub's cache or from a directory.

    The prompts are those of our table, else those the model has in its own configuration. Code that comes
    with a model is not run.

    Args:
        name: Id on the Hugging Face hub, for its own models also without their owner; or a path.
        form: As in `ModelEmbedder`.
        revision: Version that is wanted, first characters.
    """

    def __init__(self, name: Name, *, form: str | None = None, revision: str | None = None) -> None:
        needs(_KIND, "sentence_transformers", name)
        own = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
        caches = [Path(own).expanduser()] if own else []
        name, directory, version = directory_of(_KIND, name, _FILES, revision, caches=caches, owner=_KIND)
        if form is None and prompt_for(name.model) == "none":
            form = _own_form(directory)
        super().__init__(_KIND, name, directory, form=form, revision=version)

    def _load(self) -> Any:
        kind = importlib.import_module("sentence_transformers").SentenceTransformer
        try:
            return kind(str(self._directory), local_files_only=True, trust_remote_code=False)
        except (OSError, ValueError, ImportError) as error:
            raise self._error(
                f"cannot be loaded: {error}; a model that needs code of its own is for python:module:object",
                unavailable=True,
            ) from error

    def _encode(self, model: Any, texts: list[str], *, query: bool) -> Sequence[Any]:
        # Texts have their prompts already: an empty one keeps the model from writing its own a second time.
        encode = model.encode_query if query else model.encode_document
        rows: Sequence[Any] = encode(texts, prompt="", show_progress_bar=False, convert_to_numpy=True)
        return rows


def _own_form(directory: Path) -> str | None:
    """The prompt form that a model has in its own configuration."""
    try:
        own = json.loads((directory / _SETTINGS).read_text(encoding="utf-8"))["prompts"]
        query, document = own.get("query") or "", own.get("document") or own.get("passage") or ""
        return custom(document, query) if query or document else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
