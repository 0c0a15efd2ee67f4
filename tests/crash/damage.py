"""Damaged copies of a store: the right answer or a typed error, never a wrong text, never a hang."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otolith import Memory

from . import repairing
from .children import Child, ask
from .content import EMBEDDER, as_fields, fields_of, vector_of
from .figures import spread
from .probe import Findings, Original, Probe

DEADLINE = 20.0
VERIFY_DEADLINE = 60.0
PAGE = 4096
HEADER_SHARE = 0.2
REPAIRED_SHARE = 0.05
KINDS = ("1 bit", "20 bits", "200 bits", "zeroed page", "copied page", "truncated", "appended")
SAW = ("seen", "refused")
HAS_VERIFY = hasattr(Memory, "verify") and importlib.util.find_spec("otolith.maintenance") is not None


def _prepare(home: Path, seed: int, records: int, say: Callable[[Any], None]) -> None:
    """Writes the store: created, changed and forgotten, in many transactions, with keys, dirs and vectors.

    The last commit forgets, so that a fall back to the one before is seen; the process ends by SIGKILL.
    """
    rng = random.Random(seed)
    memory = Memory.open(home, embedder=EMBEDDER)
    ids: dict[str, str] = {}
    forms: list[tuple[str, dict[str, Any]]] = []
    for number in range(records + records // 5):
        name = f"d-{number}"
        given = rng.random() < 0.5
        key = name if rng.random() < 0.4 else None
        fields = fields_of(name, "first", key=key, tags=(f"group-{number % 9}",), given=given)
        vector = vector_of(name, "first") if given else None
        first = memory.remember(**fields, actor="w0", vector=vector)
        ids[name] = first.id
        forms.append((first.id, as_fields(first)))
        if key is None and rng.random() < 0.2:
            renewed = {"body": None, "working_dir": None, **fields_of(name, "second")}
            forms.append((first.id, as_fields(memory.update(first.id, **renewed))))
    memory.embed_pending()
    memory.forget(*rng.sample(sorted(ids.values()), records // 5))
    say(forms)
    os.kill(os.getpid(), signal.SIGKILL)


def _describe(home: Path, say: Callable[[Any], None]) -> None:
    """What it holds, by a handle that closes properly."""
    with Memory.open(home, embedder=EMBEDDER) as memory:
        file = io.BytesIO()
        memory.export(file)
        rows = {}
        for line in file.getvalue().splitlines():
            record = json.loads(line)
            if "summary" in record and record.get("vectors"):
                rows[record["id"]] = record["vectors"]
        say([{episode.id: as_fields(episode) for episode in memory.episodes()}, rows])


def original(root: Path, seed: int, records: int) -> Original:
    """The undamaged store, as a killed process left it and closed properly, and what it holds."""
    home = root / "original"
    file = home / "episodes.redb"
    _, forms = ask("original", lambda say: _prepare(home, seed, records, say), 120)
    if not forms:
        raise RuntimeError("the store could not be made")
    unclean = file.read_bytes()
    code, said = ask("describe", lambda say: _describe(home, say), 120)
    if code or not said:
        raise RuntimeError(f"the store cannot be read: exit {code}")
    present, vectors = said[-1]
    earlier: dict[str, list[dict[str, Any]]] = {}
    for one, fields in forms[-1]:
        earlier.setdefault(one, []).append(fields)
    return Original(home, (file.read_bytes(), unclean), present, vectors, earlier)


def damaged(image: bytes, kind: str, rng: random.Random) -> tuple[bytes, int]:
    """The image with one damage, and where it begins. Differs from the image in at least one byte."""
    while True:
        size = len(image)
        at = rng.randrange(PAGE) if rng.random() < HEADER_SHARE else rng.randrange(size)
        new = bytearray(image)
        if kind.endswith(("bit", "bits")):
            # Several bits lie together, as those of a bad sector do.
            for number in range(int(kind.split()[0])):
                place = at if number == 0 else min(size - 1, at + rng.randrange(512))
                new[place] ^= 1 << rng.randrange(8)
        elif kind == "zeroed page":
            at -= at % PAGE
            new[at : at + PAGE] = bytes(len(new[at : at + PAGE]))
        elif kind == "copied page":
            at -= at % PAGE
            source = rng.randrange(size // PAGE) * PAGE
            new[at : at + PAGE] = image[source : source + PAGE]
        elif kind == "truncated":
            del new[at:]
        else:
            at = size
            new += rng.randbytes(rng.choice([1, 100, PAGE, 3 * PAGE]))
        if new != image:
            return bytes(new), at


@dataclass
class Image:
    """One damaged copy and what became of it."""

    number: int
    kind: str
    at: int
    seconds: float = 0.0
    code: int = 0
    hung: bool = False
    findings: dict[str, Any] = field(default_factory=dict)
    verified: str = ""
    """What `verify` said, see `repairing.verified`; empty if it was not asked."""
    repaired: bool = False
    restored: int | None = None
    """Records that a repair brought back."""

    @property
    def touched(self) -> bool:
        """Whether any answer was not the one the undamaged store gives."""
        found = self.findings
        return bool(self.code) or any(
            found[name] for name in ("wrong", "errors", "absent", "earlier", "told", "pending")
        )


class Run:
    """All images of a run."""

    def __init__(self, root: Path, count: int, seed: int, records: int, verify: tuple[float, float]) -> None:
        self.root = root
        self.count = count
        self.seed = seed
        self.verify_touched, self.verify_others = verify if HAS_VERIFY else (0.0, 0.0)
        self.original = original(root, seed, records)
        self.images: list[Image] = []
        self.wrong: list[str] = []
        self.kept: Path | None = None

    def all(self) -> None:
        """Each image, one after the other."""
        for number in range(self.count):
            rng = random.Random(f"{self.seed}/{number}")
            kind = KINDS[number % len(KINDS)]
            content, at = damaged(self.original.images[number // len(KINDS) % 2], kind, rng)
            image = Image(number, kind, at)
            self.images.append(image)
            found = len(self.wrong)
            self._probe(image, content)
            if rng.random() < (self.verify_touched if image.touched else self.verify_others):
                self._verify(image, content, repair=image.touched and rng.random() < REPAIRED_SHARE)
            if len(self.wrong) > found:
                self._keep(image, content)

    def _keep(self, image: Image, content: bytes) -> None:
        """Puts an image that showed something where it can be looked into."""
        if self.kept is None:
            self.kept = Path(tempfile.mkdtemp(prefix="otolith-damaged-"))
        home = self.kept / f"image-{image.number}"
        home.mkdir()
        (home / "episodes.redb").write_bytes(content)

    def _home(self, name: str, content: bytes) -> Path:
        home = self.root / name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(mode=0o700)
        (home / "episodes.redb").write_bytes(content)
        return home

    def _probe(self, image: Image, content: bytes) -> None:
        home = self._home("probed", content)
        began = time.monotonic()
        child = Child.start("probe", lambda say: Probe(self.original, home, say).run())
        image.hung = not child.wait(DEADLINE)
        if image.hung:
            child.kill()
        image.seconds = time.monotonic() - began
        image.code = child.code or 0
        said = child.answers()
        child.close()
        image.findings = said[-1] if said else Findings(step="start").to_dict()
        where = f"image {image.number} ({image.kind} at {image.at})"
        if image.hung:
            self.wrong.append(f"{where}: hangs in {image.findings['step']}")
        elif image.code not in (0, -signal.SIGABRT):
            self.wrong.append(f"{where}: ended with {image.code} in {image.findings['step']}")
        self.wrong += [f"{where}: {text}" for text in image.findings["wrong"]]
        if image.kind != "copied page":
            # Only a page that was once written here can be whole and hold what was true then.
            self.wrong += [f"{where}: an earlier form: {text}" for text in image.findings["earlier"]]

    def _verify(self, image: Image, content: bytes, *, repair: bool) -> None:
        home = self._home("verified", content)
        where = f"image {image.number} ({image.kind} at {image.at})"
        image.verified = repairing.verified(home, VERIFY_DEADLINE)
        if image.verified not in ("seen", "refused", "clean"):
            self.wrong.append(f"{where}: verify: {image.verified}")
        elif image.touched and image.verified == "clean":
            self.wrong.append(f"{where}: verify sees nothing, but {image.findings}")
        if (home / "episodes.redb").read_bytes() != content:
            self.wrong.append(f"{where}: verify changed the file")
        if repair:
            image.repaired = True
            image.restored, wrong = repairing.repaired(home, content, self.original, VERIFY_DEADLINE)
            self.wrong += [f"{where}: {text}" for text in wrong]


def run(
    count: int, seed: int, records: int = 250, verify_touched: float = 1.0, verify_others: float = 0.1
) -> dict[str, Any]:
    """Damages `count` copies and tells what was seen.

    Args:
        count: Images; the kinds of damage take turns.
        seed: Of the store and of every damage: image n of a seed is always the same but for ids and times.
        records: Records in the store.
        verify_touched: Share of the images with an effect that are verified.
        verify_others: Share of the images without any effect that are verified all the same.
    """
    shm = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="otolith-damage-", dir=shm if shm.is_dir() else None))
    began = time.monotonic()
    try:
        whole = Run(root, count, seed, records, (verify_touched, verify_others))
        whole.all()
        result = _figures(whole, time.monotonic() - began)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return result


def _figures(whole: Run, seconds: float) -> dict[str, Any]:
    table = {}
    for kind in KINDS:
        of_kind = [image for image in whole.images if image.kind == kind]
        table[kind] = {
            "images": len(of_kind),
            "no_effect": sum(not image.touched for image in of_kind),
            "typed_error": sum(not image.code and bool(image.findings["errors"]) for image in of_kind),
            "told": sum(
                not image.code
                and not image.findings["errors"]
                and not image.findings["wrong"]
                and not image.findings["earlier"]
                and bool(image.findings["absent"] or image.findings["told"] or image.findings["pending"])
                for image in of_kind
            ),
            "earlier_form": sum(bool(image.findings["earlier"]) for image in of_kind),
            "aborts": sum(image.code == -signal.SIGABRT for image in of_kind),
            "crashes": sum(image.code not in (0, -signal.SIGABRT) and not image.hung for image in of_kind),
            "hangs": sum(image.hung for image in of_kind),
            "wrong": sum(bool(image.findings["wrong"]) for image in of_kind),
            "verify_asked_of_touched": sum(image.touched and bool(image.verified) for image in of_kind),
            "verify_saw_of_touched": sum(image.touched and image.verified in SAW for image in of_kind),
            "verify_asked_of_others": sum(not image.touched and bool(image.verified) for image in of_kind),
            "verify_saw_of_others": sum(not image.touched and image.verified in SAW for image in of_kind),
            "repaired": sum(image.repaired for image in of_kind),
            "restored_whole": sum(image.restored == len(whole.original.records) for image in of_kind),
        }
    errors = [text for image in whole.images for text in image.findings["errors"].values()]
    return {
        "run": "damage",
        "ok": not whole.wrong,
        "wrong": whole.wrong[:40],
        "wrong_count": len(whole.wrong),
        "kept": None if whole.kept is None else str(whole.kept),
        "seed": whole.seed,
        "seconds": seconds,
        "file_bytes": len(whole.original.images[0]),
        "records": len(whole.original.records),
        "kinds": table,
        "errors": Counter(text.split(":")[0] for text in errors),
        "aborts_in": Counter(
            image.findings["step"] for image in whole.images if image.code == -signal.SIGABRT
        ),
        "restored_records": spread([image.restored for image in whole.images if image.restored is not None]),
        "least_restored_records": min(
            (image.restored for image in whole.images if image.restored is not None), default=None
        ),
        "probe_ms": spread([image.seconds * 1e3 for image in whole.images]),
    }
