"""Embedders: from text to vectors. One file per adapter, imported on use. docs/embedders.md tells more.

=============================== ===================================================================
spec                            what it is
=============================== ===================================================================
``none``                        keyword search only
``auto``                        the one that was set, else the one the home was made with, else a
                                small model that lies on this machine, else ``none``
``hash:N``                      hashed n-grams of width N; for tests and demonstrations, knows no
                                meaning
``openai:MODEL``                any server that speaks OpenAI's ``/embeddings``
``ollama:MODEL``                an Ollama server
``fastembed:MODEL``             a model of fastembed, on onnxruntime
``sentence-transformers:MODEL`` a model of sentence-transformers, on torch; ``st:MODEL`` for short
``model2vec:MODEL``             a static model of model2vec
``python:module:object``        an object, class, factory or function of yours
an object                       with ``embed_documents`` and ``embed_query``, or a function of a
                                list of texts
=============================== ===================================================================

What an adapter needs is installed by the extra of its name, ``pip install otolith[fastembed]``. A model may
be followed by ``?prompt=FORM&dim=N``. Nothing is ever downloaded.
"""

from __future__ import annotations

from .base import Embedder
from .objects import wrap
from .specs import resolve

__all__ = ["Embedder", "resolve", "wrap"]
