"""Records that prove themselves: all of one follows from its name and version, and carries a checksum."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import numpy as np
from otolith import Episode

# As wide as the vectors of small models: a store keeps each in several rows.
DIM = 384
EMBEDDER = f"hash:{DIM}"
FILLER = ["token", "deploy", "rollback", "pool", "latency", "index", "cache", "retry", "schema", "parser"]
FILLER += ["socket", "thread", "queue", "lock", "page", "commit", "branch", "release", "budget", "invoice"]
FILLER += ["lunch", "harbour", "window", "garden", "部署", "令牌", "回滚", "索引"]
CONSONANTS = "bcdfghjklmnpqrtvwxz"


def word(name: str) -> str:
    """A word that no other name has, and that is no typo or inflection of another's."""
    digest = int.from_bytes(hashlib.sha256(name.encode()).digest()[:12], "little")
    letters = []
    for _ in range(14):
        digest, at = divmod(digest, len(CONSONANTS))
        letters.append(CONSONANTS[at])
    return "".join(letters)


def checksum(fields: dict[str, Any]) -> str:
    """Over everything of a record that a writer gives."""
    told = {
        "summary": fields["summary"],
        "body": fields.get("body"),
        "key": fields.get("key"),
        "working_dir": fields.get("working_dir"),
        "tags": sorted(fields.get("tags") or ()),
        "metadata": {name: value for name, value in fields["metadata"].items() if name != "sum"},
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:24]


def fields_of(
    name: str, version: str, *, key: str | None = None, tags: tuple[str, ...] = (), given: bool = False
) -> dict[str, Any]:
    """The fields of a record. Bodies are mostly short; one in twelve fills several pages."""
    rng = random.Random(f"{name}/{version}")
    said = " ".join(rng.choices(FILLER, k=rng.randint(3, 12)))
    fields: dict[str, Any] = {
        "summary": f"{word(name)} {said} {word(name + version)}",
        "tags": list(tags),
        "metadata": {"name": name, "version": version, "given": given},
    }
    if rng.random() < 0.6:
        fields["body"] = " ".join(rng.choices(FILLER, k=rng.choice([5, 20, 60])))
    if rng.random() < 1 / 12:
        fields["body"] = " ".join(rng.choices(FILLER, k=rng.randint(1000, 3000)))
    if rng.random() < 0.5:
        fields["working_dir"] = f"/work/{rng.choice('abc')}/{rng.choice('xyz')}"
    if key is not None:
        fields["key"] = key
    fields["metadata"]["sum"] = checksum(fields)
    return fields


def vector_of(name: str, version: str) -> Any:
    """The vector that is given for a record."""
    seed = int.from_bytes(hashlib.sha256(f"{name}/{version}".encode()).digest()[:8], "little")
    row = np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)
    return row / np.linalg.norm(row)


def as_fields(episode: Episode) -> dict[str, Any]:
    """What of a record that was read `checksum` looks at."""
    return {
        "summary": episode.summary,
        "body": episode.body,
        "key": episode.key,
        "working_dir": episode.working_dir,
        "tags": list(episode.tags),
        "metadata": dict(episode.metadata),
    }


def is_right(fields: dict[str, Any]) -> bool:
    """Whether a record that was read holds what was written under its name and version."""
    metadata = fields["metadata"]
    return bool(
        {"name", "version", "sum"} <= metadata.keys()
        and metadata["sum"] == checksum(fields)
        and word(metadata["name"]) in fields["summary"].split()
    )
