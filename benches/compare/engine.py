"""What every engine does, so that all are asked in the same way."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar


class Engine:
    """An engine over documents that are known by their number.

    Args:
        folder: Where its files are, if it has any.

    Attributes:
        survives: What an insertion that returned lives through.
        batch: How many texts it is given at a time when it is built.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    survives: ClassVar[str] = "nothing"
    batch: ClassVar[int] = 100_000

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def persists(self) -> bool:
        """Whether it can be opened again from files."""
        return True

    def changes(self) -> bool:
        """Whether documents can come and go."""
        return True

    def missing(self) -> list[str]:
        """What could not be measured since it is not there yet."""
        return []

    def load_code(self) -> None:
        """Imports what it needs, before any clock starts."""

    def build(self, batches: Iterable[list[str]]) -> None:
        """Takes in documents 0, 1, 2, ..., and is ready to be asked."""
        raise NotImplementedError

    def save(self) -> None:
        """Writes what `open` reads, if building has not."""

    def open(self) -> None:
        """Is ready to be asked, from the files."""
        raise NotImplementedError

    def ask(self, text: str) -> list[int]:
        """The numbers of the ten best."""
        raise NotImplementedError

    def insert(self, number: int, text: str) -> Any:
        """One document more; the next question finds it."""
        raise NotImplementedError

    def remove(self, number: int) -> Any:
        """One document less; the next question does not find it."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of the files."""
