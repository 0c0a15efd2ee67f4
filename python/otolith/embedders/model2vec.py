"""Static models of model2vec: a table of word vectors, thousands of texts a second, no meaning in context."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from .local import LocalEmbedder, directory_of, needs
from .naming import Name

__all__ = ["Model2VecEmbedder"]

_FILES = ("model.safetensors", "tokenizer.json", "config.json")


class Model2VecEmbedder(LocalEmbedder):
    """A `StaticModel` from the hub's cache or from a directory.

    Args:
        name: Id on the Hugging Face hub, or a path.
        form: As in `ModelEmbedder`.
        revision: Version that is wanted, first characters.
    """

    def __init__(self, name: Name, *, form: str | None = None, revision: str | None = None) -> None:
        needs("model2vec", "model2vec", name)
        name, directory, version = directory_of("model2vec", name, _FILES, revision)
        super().__init__("model2vec", name, directory, form=form, revision=version)

    def _load(self) -> Any:
        static = importlib.import_module("model2vec").StaticModel
        # Without this it asks the hub for a newer version, were the directory gone by now.
        return static.from_pretrained(str(self._directory), force_download=False)

    def _encode(self, model: Any, texts: list[str], *, query: bool) -> Sequence[Any]:
        rows: Sequence[Any] = model.encode(texts, use_multiprocessing=False, show_progress_bar=False)
        return rows
