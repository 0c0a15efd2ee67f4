"""Datasets in files: one format a file."""

from __future__ import annotations

from ._files import document_of
from .beir import load_beir
from .cases import load_cases
from .diary import load_diary
from .locomo import load_locomo
from .memorybank import load_memorybank

__all__ = ["document_of", "load_beir", "load_cases", "load_diary", "load_locomo", "load_memorybank"]
