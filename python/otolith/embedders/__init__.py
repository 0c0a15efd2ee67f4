"""Embedders: from text to vectors. One file per adapter, imported on use.

======================== ==========================================================================
spec                     what it is
======================== ==========================================================================
``none``                 keyword search only
``auto``                 the one that was set, else the one the home was made with, else ``none``
``hash:N``               hashed n-grams of width N; for tests and demonstrations, knows no meaning
``openai:MODEL``         any server that speaks OpenAI's ``/embeddings`` (``pip install otolith[openai]``)
``python:module:object`` an object, class, factory or function of yours
an object                with ``embed_documents`` and ``embed_query``, or a function of a list of texts
======================== ==========================================================================
"""

from __future__ import annotations

from .base import Embedder
from .objects import wrap
from .specs import resolve

__all__ = ["Embedder", "resolve", "wrap"]
