"""The environment variables Otolith reads, each named and explained once.

The table of settings in `otolith.config` points here; nothing else in the package reads the environment
for a setting.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

HOME: Final = "OTOLITH_HOME"
EMBEDDER: Final = "OTOLITH_EMBEDDER"
EMBEDDER_URL: Final = "OTOLITH_EMBEDDER_URL"
EMBEDDER_KEY: Final = "OTOLITH_EMBEDDER_KEY"
EMBEDDER_PROMPT: Final = "OTOLITH_EMBEDDER_PROMPT"
EMBEDDER_DIM: Final = "OTOLITH_EMBEDDER_DIM"
DURABILITY: Final = "OTOLITH_DURABILITY"
STORE_MODE: Final = "OTOLITH_STORE_MODE"
STORE_NETWORK: Final = "OTOLITH_STORE_NETWORK"
LOCK_TIMEOUT: Final = "OTOLITH_LOCK_TIMEOUT"
ANALYZER: Final = "OTOLITH_ANALYZER"
ANALYZER_LANGUAGE: Final = "OTOLITH_ANALYZER_LANGUAGE"
ANALYZER_EXPAND: Final = "OTOLITH_ANALYZER_EXPAND"
ANALYZER_SYNONYMS: Final = "OTOLITH_ANALYZER_SYNONYMS"
LOG: Final = "OTOLITH_LOG"
NO_COLOR: Final = "NO_COLOR"

VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        HOME: "directory of the memory; wins over a .otolith directory found nearby",
        EMBEDDER: "embedder to use, for instance none, auto or openai:MODEL",
        EMBEDDER_URL: "base URL of the embedding server, for instance http://127.0.0.1:8080/v1",
        EMBEDDER_KEY: "key for the embedding server; never shown or logged",
        EMBEDDER_PROMPT: "what is written before texts, such as none or e5; default: what the model wants",
        EMBEDDER_DIM: "how many numbers of each vector are kept; all by default",
        LOCK_TIMEOUT: "seconds a write waits for another process before it gives up",
        DURABILITY: "full (a write returns when it is on disk) or batched (up to 50 ms earlier)",
        STORE_MODE: "shared (any number of processes) or exclusive (this handle alone, faster commits)",
        STORE_NETWORK: "refuse or allow a home on a network file system",
        ANALYZER: "default or plain (case-folded words and nothing else)",
        ANALYZER_LANGUAGE: "whose words are stemmed: english, german, ... or off",
        ANALYZER_EXPAND: "which words are taken for longer or misspelt ones: missing (those), always or off",
        ANALYZER_SYNONYMS: "what words are also called, for instance k8s=kubernetes; db=database,datastore",
        LOG: "what is told on stderr: error, warning, info or debug (debug shows tracebacks)",
        NO_COLOR: "any value: no colours",
    }
)


def read(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Returns the value of an environment variable, None when it is unset or empty."""
    return (os.environ if environ is None else environ).get(name) or None
