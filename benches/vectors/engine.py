"""What every engine does, so that all are asked in the same way."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from .rows import Floats
from .sets import Asked

Supply = Iterable[tuple[list[str], Floats]]
EFS = (16, 32, 64, 128, 256, 512)


class Engine:
    """An engine over documents that are known by their number.

    Args:
        folder: Where its files are.
        width: Of the vectors.

    Attributes:
        both: Whether it searches words as well.
        efs: What it can be asked to keep on a walk, None for what it does by itself.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    both: ClassVar[bool] = False
    efs: ClassVar[tuple[int | None, ...]] = EFS

    def __init__(self, folder: Path, width: int) -> None:
        self.folder, self.width = folder, width

    def changes(self) -> bool:
        """Whether a document can come to the others."""
        return True

    def load_code(self) -> None:
        """Imports what it needs, before any clock starts."""

    def build(self, supply: Supply) -> None:
        """Takes in documents 0, 1, 2, ..., and is ready to be asked."""
        raise NotImplementedError

    def save(self) -> None:
        """Writes what `open` reads, if building has not."""

    def open(self) -> None:
        """Is ready to be asked, from the files."""
        raise NotImplementedError

    def walks(self, n: int) -> tuple[int | None, ...]:
        """Which of `efs` make a difference over `n` documents."""
        return self.efs

    def effort(self, ef: int | None) -> None:
        """How many rows to keep on a walk from now on."""

    def ask(self, asked: Asked) -> list[int]:
        """The numbers of the ten best."""
        raise NotImplementedError

    def insert(self, number: int, row: Floats) -> Any:
        """One document more; the next question finds it."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of the files."""
