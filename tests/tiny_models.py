"""Whole models of a few kilobytes, in the layouts of the caches that real ones lie in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

DIM = 16
REVISION = "0123456789abcdef0123456789abcdef01234567"
WORDS = ["dog", "puppy", "barked", "tax", "invoice", "due", "passage", "query", "the", "a", "?", ":", "狗"]
LIKE = {"puppy": "dog", "invoice": "tax", "狗": "dog"}


def table(dim: int = DIM) -> np.ndarray:
    """A row for each word, [PAD] and [UNK] first; like words have like rows."""
    draw = np.random.default_rng(1)
    rows = {word: draw.standard_normal(dim) for word in ["[PAD]", "[UNK]", *WORDS]}
    for word, other in LIKE.items():
        rows[word] = rows[other] + 0.2 * draw.standard_normal(dim)
    rows["[PAD]"] = rows["[UNK]"] = np.zeros(dim)
    return np.array(list(rows.values()), dtype=np.float32)


def tokenizer() -> object:
    from tokenizers import Tokenizer, normalizers, pre_tokenizers
    from tokenizers.models import WordLevel

    vocabulary = {word: place for place, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    made = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


def cached(root: Path, repository: str, revision: str = REVISION, *, main: bool = True) -> Path:
    """An empty directory for a version of a model in a cache of the Hugging Face hub's layout."""
    place = root / f"models--{repository.replace('/', '--')}"
    directory = place / "snapshots" / revision
    directory.mkdir(parents=True)
    if main:
        (place / "refs").mkdir(exist_ok=True)
        (place / "refs" / "main").write_text(revision)
    return directory


def static_model(directory: Path, dim: int = DIM) -> Path:
    """A model of model2vec."""
    from model2vec import StaticModel

    StaticModel(table(dim), tokenizer(), config={}).save_pretrained(directory)  # type: ignore[arg-type]
    return directory


def onnx_model(directory: Path, weights: str = "model.onnx") -> Path:
    """A transformer without layers: each token's row, to be averaged by who asks."""
    tokenizer().save(str(directory / "tokenizer.json"))  # type: ignore[attr-defined]
    settings = {"model_max_length": 64, "pad_token": "[PAD]", "unk_token": "[UNK]"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    (directory / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]"}))
    (directory / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (directory / weights).parent.mkdir(parents=True, exist_ok=True)
    (directory / weights).write_bytes(_onnx(table()))
    return directory


def _onnx(rows: np.ndarray) -> bytes:
    """`last_hidden_state = rows[input_ids]` as an ONNX file, written field by field (onnx.proto)."""
    count, dim = rows.shape
    tensor = (
        _number(1, count) + _number(1, dim) + _number(2, 1) + _text(8, "rows") + _bytes(9, rows.tobytes())
    )
    node = _text(1, "rows") + _text(1, "input_ids") + _text(2, "last_hidden_state") + _text(4, "Gather")
    graph = (
        _bytes(1, node)
        + _text(2, "tiny")
        + _bytes(5, tensor)
        + _bytes(11, _value("input_ids", 7, ["batch", "length"]))
        + _bytes(11, _value("attention_mask", 7, ["batch", "length"]))
        + _bytes(12, _value("last_hidden_state", 1, ["batch", "length", dim]))
    )
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, 13))


def _value(name: str, kind: int, shape: Iterable[str | int]) -> bytes:
    places = b"".join(_bytes(1, _number(1, one) if isinstance(one, int) else _text(2, one)) for one in shape)
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, places)))


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())
