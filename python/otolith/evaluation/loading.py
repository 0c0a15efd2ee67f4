"""From a name or a path to a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from otolith.exceptions import InvalidInput
from otolith.transfer.locomo import samples_of

from .dataset import Dataset, checked
from .formats import document_of, load_beir, load_cases, load_diary, load_locomo, load_memorybank

__all__ = ["SHIPPED", "Shipped", "load"]

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shipped:
    """A dataset that comes with the package.

    Args:
        name: What it is asked for by.
        summary: What it is.
        licence: Its licence; the notice lies beside the data.
    """

    name: str
    summary: str
    licence: str

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return _DATA / self.name


SHIPPED = {
    one.name: one
    for one in (
        Shipped(
            name="coding-agent-life",
            summary="20 sessions of a coding diary, English, 20 questions",
            licence="Apache-2.0",
        ),
        Shipped(
            name="memorybank-zh",
            summary="ten days of chat with each of 15 people, Chinese, 100 questions",
            licence="MIT",
        ),
    )
}
"""The datasets that come with the package, by name."""


def load(dataset: str | Path) -> Dataset:
    """Reads a dataset and looks whether it can be used.

    Args:
        dataset: The name of one that ships; a folder in BEIR's layout, of MemoryBank or of coding-agent-life;
            the JSON of LoCoMo; or cases in YAML, TOML or JSON.

    Raises:
        InvalidInput: There is no such dataset, or it cannot be used; the message says why.
    """
    path = Path(dataset)
    shipped = SHIPPED.get(str(dataset))
    if shipped is not None and not path.exists():
        path = shipped.folder
    if path.is_dir():
        return checked(_folder(path))
    if not path.exists():
        names = ", ".join(SHIPPED)
        raise InvalidInput(
            f"dataset: there is no file {path}, nor a dataset of this name; those that ship are {names}",
            field="dataset",
        )
    document = document_of(path)
    read = load_locomo if samples_of(document) else load_cases
    return checked(read(path, document))


def _folder(path: Path) -> Dataset:
    for file, read in (
        ("corpus.jsonl", load_beir),
        ("memory_bank_cn.json", load_memorybank),
        ("queries.json", load_diary),
    ):
        if (path / file).exists():
            return read(path)
    raise InvalidInput(
        f"dataset: {path} holds none of corpus.jsonl (BEIR), memory_bank_cn.json (MemoryBank), queries.json "
        "(coding-agent-life); give the folder that does",
        field="dataset",
    )
