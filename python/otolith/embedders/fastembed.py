"""Models of fastembed, on onnxruntime: transformers without torch."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from .local import LocalEmbedder, fastembed_cache, hub_cache, needs, not_cached, snapshot
from .model import failure
from .naming import Name

__all__ = ["KNOWN", "FastEmbedEmbedder", "Source", "lookup"]


class Source(NamedTuple):
    """Where fastembed gets a model from.

    Attributes:
        repository: On the Hugging Face hub.
        weights: File of the model in it.
    """

    repository: str
    weights: str


KNOWN: Final = {
    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2": Source(
        "Qdrant/paraphrase-multilingual-MiniLM-L12-v2-onnx-Q", "model_optimized.onnx"
    ),
    "BAAI/bge-small-en-v1.5": Source("Qdrant/bge-small-en-v1.5-onnx-Q", "model_optimized.onnx"),
    "snowflake/snowflake-arctic-embed-s": Source("Snowflake/snowflake-arctic-embed-s", "onnx/model.onnx"),
    "snowflake/snowflake-arctic-embed-xs": Source("Snowflake/snowflake-arctic-embed-xs", "onnx/model.onnx"),
    "sentence-transformers/all-MiniLM-L6-v2": Source("Qdrant/all-MiniLM-L6-v2-onnx", "model.onnx"),
}
"""Small models as fastembed 0.9.1 has them, so that they are looked up without importing it; it asks for any
other model's source. The order is that in which `auto` takes them: many languages first, then what finds most
(nDCG@10 of BEIR as their cards say)."""

_TOKENIZER: Final = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def lookup(source: Source, revision: str | None = None) -> Path | None:
    """The directory of a model in fastembed's cache, else in that of the hub; None if it is in neither."""
    files = [source.weights, *(_TOKENIZER if source.weights.endswith(".onnx") else ("tokenizer.json",))]
    for root in (fastembed_cache(), hub_cache()):
        # Earlier versions of fastembed wrote the owner in lower case.
        owner, _, rest = source.repository.partition("/")
        for repository in dict.fromkeys((source.repository, f"{owner.lower()}/{rest}")):
            found = snapshot(root, repository, files, revision)
            if found is not None:
                return found
    return None


class FastEmbedEmbedder(LocalEmbedder):
    """A `TextEmbedding` from fastembed's cache.

    Args:
        name: The model as `TextEmbedding.list_supported_models()` has it.
        form: As in `ModelEmbedder`.
        revision: Version that is wanted, first characters.
    """

    def __init__(self, name: Name, *, form: str | None = None, revision: str | None = None) -> None:
        needs("fastembed", "fastembed", name)
        source = KNOWN.get(name.model) or _source(name)
        directory = lookup(source, revision)
        if directory is None:
            how = f"python -c \"from fastembed import TextEmbedding; TextEmbedding('{name.model}')\""
            raise not_cached("fastembed", name, [fastembed_cache(), hub_cache()], how)
        super().__init__("fastembed", name, directory, form=form, revision=directory.name[:12])

    def _load(self) -> Any:
        kind = importlib.import_module("fastembed").TextEmbedding
        # On a directory it neither looks into its cache nor asks the hub, which it tries for 40 seconds.
        return kind(self._model, specific_model_path=str(self._directory), local_files_only=True)

    def _encode(self, model: Any, texts: list[str], *, query: bool) -> Sequence[Any]:
        # Its own query_embed and passage_embed write prompts for some models; ours are written already.
        return list(model.embed(texts, batch_size=len(texts), parallel=None))


def _source(name: Name) -> Source:
    """Where a model comes from, as the installed fastembed says."""
    supported = importlib.import_module("fastembed").TextEmbedding.list_supported_models()
    for one in supported:
        if one["model"].lower() == name.model.lower() and one["sources"].get("hf"):
            return Source(one["sources"]["hf"], one["model_file"])
    what = "fastembed has no such model; see TextEmbedding.list_supported_models()"
    raise failure(f"fastembed:{name}", what, unavailable=True)
