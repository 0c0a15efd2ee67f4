"""Rivals that search vectors, each as its documents say, with the same links and effort of building.

Their packages, the group `compare`, are imported only here.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .engine import Engine, Supply
from .rows import Floats
from .sets import Asked

K = 10
M, EF_CONSTRUCTION = 16, 200
# What hnswlib has to be told beforehand: how many rows may come.
ROOM = 10_000


class Numpy(Engine):
    """Every product, by the matrix library."""

    name = "numpy"
    title = "numpy, every row"
    efs = (None,)

    def changes(self) -> bool:
        return False

    def build(self, supply: Supply) -> None:
        self._rows = np.concatenate([rows for _, rows in supply])

    def save(self) -> None:
        np.save(self.folder / "rows.npy", self._rows)

    def open(self) -> None:
        self._rows = np.load(self.folder / "rows.npy")

    def ask(self, asked: Asked) -> list[int]:
        scores = self._rows @ asked.vector
        best = np.argpartition(scores, len(scores) - K)[-K:]
        numbers: list[int] = best[np.argsort(-scores[best])].tolist()
        return numbers


class Faiss(Engine):
    """`IndexHNSWFlat` over inner products of unit rows."""

    name = "faiss"
    title = "faiss HNSW, f32"
    packages = ("faiss-cpu",)

    def load_code(self) -> None:
        import faiss

        self._lib: Any = faiss
        faiss.omp_set_num_threads(1)

    def build(self, supply: Supply) -> None:
        self._index = self._lib.IndexHNSWFlat(self.width, M, self._lib.METRIC_INNER_PRODUCT)
        self._index.hnsw.efConstruction = EF_CONSTRUCTION
        for _, rows in supply:
            self._index.add(rows)

    def save(self) -> None:
        self._lib.write_index(self._index, str(self.folder / "index"))

    def open(self) -> None:
        self._index = self._lib.read_index(str(self.folder / "index"))

    def effort(self, ef: int | None) -> None:
        self._index.hnsw.efSearch = ef

    def ask(self, asked: Asked) -> list[int]:
        _, found = self._index.search(asked.vector[None], K)
        numbers: list[int] = found[0].tolist()
        return numbers

    def insert(self, number: int, row: Floats) -> None:
        self._index.add(row[None])


class Usearch(Engine):
    """One row or question at a time with one thread; the file is read, not mapped."""

    name = "usearch"
    title = "usearch, f32"
    packages = ("usearch",)
    dtype: ClassVar[str] = "f32"

    def load_code(self) -> None:
        import usearch.index

        self._lib: Any = usearch.index

    def build(self, supply: Supply) -> None:
        self._index = self._lib.Index(
            ndim=self.width,
            metric="ip",
            dtype=self.dtype,
            connectivity=M,
            expansion_add=EF_CONSTRUCTION,
        )
        begin = 0
        for _, rows in supply:
            self._index.add(np.arange(begin, begin + len(rows)), rows, threads=1)
            begin += len(rows)

    def save(self) -> None:
        self._index.save(str(self.folder / "index"))

    def open(self) -> None:
        self._index = self._lib.Index.restore(str(self.folder / "index"), view=False)

    def effort(self, ef: int | None) -> None:
        self._index.expansion_search = ef

    def ask(self, asked: Asked) -> list[int]:
        numbers: list[int] = self._index.search(asked.vector, K, threads=1).keys.tolist()
        return numbers

    def best(self, asked: Asked, depth: int) -> tuple[list[int], list[float]]:
        """Numbers and cosines of the best."""
        found = self._index.search(asked.vector, depth, threads=1)
        return found.keys.tolist(), (1 - found.distances).tolist()

    def insert(self, number: int, row: Floats) -> None:
        self._index.add(number, row, threads=1)


class UsearchBf16(Usearch):
    """The same with rows of half the size."""

    name = "usearch-bf16"
    title = "usearch, bf16"
    dtype = "bf16"


class Hnswlib(Engine):
    """Built by its installer for the machine it is installed on."""

    name = "hnswlib"
    title = "hnswlib, f32"
    packages = ("hnswlib",)

    def load_code(self) -> None:
        import hnswlib

        self._lib: Any = hnswlib

    def _new(self) -> Any:
        return self._lib.Index(space="ip", dim=self.width)

    def build(self, supply: Supply) -> None:
        self._index = self._new()
        self._index.init_index(max_elements=ROOM, M=M, ef_construction=EF_CONSTRUCTION)
        begin = 0
        for _, rows in supply:
            if begin + len(rows) > self._index.get_max_elements():
                self._index.resize_index(2 * (begin + len(rows)))
            self._index.add_items(rows, np.arange(begin, begin + len(rows)), num_threads=1)
            begin += len(rows)

    def save(self) -> None:
        self._index.save_index(str(self.folder / "index"))

    def open(self) -> None:
        self._index = self._new()
        self._index.load_index(str(self.folder / "index"))
        self._index.resize_index(self._index.get_current_count() + ROOM)
        self._index.set_num_threads(1)

    def effort(self, ef: int | None) -> None:
        self._index.set_ef(ef)

    def ask(self, asked: Asked) -> list[int]:
        found, _ = self._index.knn_query(asked.vector, K)
        numbers: list[int] = found[0].tolist()
        return numbers

    def insert(self, number: int, row: Floats) -> None:
        self._index.add_items(row, [number], num_threads=1)
