"""From a spec to an embedder."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otolith.exceptions import EmbedderError, InvalidInput

from .base import Embedder, spec_of
from .naming import MODEL_KINDS, Name, checked_dim, is_path, kind_of, model_of, named
from .objects import load, wrap
from .prompts import check_form, prompt_for

if TYPE_CHECKING:
    from otolith.config import Settings

__all__ = ["Wishes", "build", "from_home", "like_home", "resolve"]

_KINDS = (
    "none, auto, hash:N, openai:MODEL, ollama:MODEL, fastembed:MODEL, sentence-transformers:MODEL, "
    "model2vec:MODEL, python:module:object"
)


class Wishes(NamedTuple):
    """What is set beside a spec; what the spec itself says goes before.

    Attributes:
        url: Base URL for `openai:` and `ollama:`.
        key: Key for the server.
        timeout: Seconds for one request.
        prompt: Prompt form.
        dim: Width that vectors are cut to.
        form: Prompt form of the home, for a model that nobody asked another for.
        revision: Version of the model that the home was made with.
    """

    url: str | None = None
    key: str | None = None
    timeout: float | None = None
    prompt: str | None = None
    dim: int | None = None
    form: str | None = None
    revision: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> Wishes:
        """What the settings say."""
        return cls(
            url=settings.get("embedder_url"),
            key=settings.get("embedder_key"),
            prompt=settings.get("embedder_prompt"),
            dim=settings.get("embedder_dim"),
        )


def resolve(
    spec: object,
    *,
    url: str | None = None,
    key: str | None = None,
    timeout: float | None = None,
    prompt: str | tuple[str, str] | None = None,
    dim: int | None = None,
) -> Embedder | None:
    """The embedder a spec stands for.

    Nothing is downloaded, no server is asked, and nothing heavy is imported but what `python:` names, and
    fastembed for a model that is not among those known here.

    Args:
        spec: `none`, `auto`, `hash:N`, `openai:MODEL`, `ollama:MODEL`, `fastembed:MODEL`,
            `sentence-transformers:MODEL` (or `st:MODEL`), `model2vec:MODEL`, `python:module:object`, None, or
            an object. A model may be followed by `?prompt=FORM&dim=N`.
        url: Base URL of the server; default: the setting `embedder_url`, else OpenAI's if there is a key, and
            for `ollama:` this machine.
        key: Key for the server; default: the setting `embedder_key`.
        timeout: Seconds for one request.
        prompt: Prompt form, see `otolith.embedders.prompts.PROMPTS`, or a pair of texts: what is written
            before texts that are stored, and before questions. Default: what the model was trained with. For
            specs that name a model.
        dim: How many numbers of each vector are kept, counted from its start; all by default.

    Returns:
        The embedder; None for `none`, None, and `auto` when nothing is set and no model is on this machine.

    Raises:
        InvalidInput: It is no spec, or the prompt form or width cannot be.
        EmbedderUnavailable: What it needs is not installed, not on this machine, or cannot be imported.
    """
    try:
        form = None if prompt is None else check_form(prompt)
        width = None if dim is None else checked_dim(dim)
    except ValueError as error:
        raise InvalidInput(f"embedder: {error}", field="embedder") from None
    wishes = Wishes(url=url, key=key, timeout=timeout, prompt=form, dim=width)
    asks = isinstance(spec, str) and kind_of(spec.strip()) in ("openai", "ollama") and url is None
    if spec == "auto" or asks:
        from otolith.config import resolve as settings_of

        settings = settings_of()
        if url is None:
            wishes = wishes._replace(
                url=settings.get("embedder_url"), key=key if key is not None else settings.get("embedder_key")
            )
        if spec == "auto":
            spec = settings.get("embedder")
            if spec == "auto":
                from .auto import find

                spec = find().spec
    return build(spec, wishes)


def build(spec: object, wishes: Wishes | None = None) -> Embedder | None:
    """As `resolve`, from the arguments alone."""
    wishes = wishes or Wishes()
    if spec is None:
        return None
    if not isinstance(spec, str):
        return _cut(wrap(spec), wishes.dim)
    spec = spec.strip()
    kind, rest = kind_of(spec), spec.partition(":")[2]
    if spec == "none":
        return None
    if kind == "hash":
        if not (rest.isascii() and rest.isdigit()):
            raise InvalidInput(f"embedder: {spec!r} needs a width, as in hash:256", field="embedder")
        from .hashed import HashEmbedder

        return _cut(HashEmbedder(int(rest[:9])), wishes.dim)
    if kind in MODEL_KINDS:
        return _model(kind, _name(spec, kind, rest, wishes), wishes)
    if kind == "python":
        return _cut(load(rest), wishes.dim)
    raise InvalidInput(f"embedder: {spec!r} is not one of {_KINDS}", field="embedder")


def _name(spec: str, kind: str, rest: str, wishes: Wishes) -> Name:
    """The model with what is wished; a form that follows from the model anyway is not said."""
    try:
        name = named(rest)
    except ValueError as error:
        raise InvalidInput(f"embedder: {spec!r}: {error}, as in openai:bge-m3", field="embedder") from None
    # Models of sentence-transformers may have prompts that their id does not tell.
    follows = wishes.prompt == prompt_for(name.model) and kind != "sentence-transformers"
    if name.prompt is None and wishes.prompt is not None and not follows:
        name = name._replace(prompt=wishes.prompt)
    if name.dim is None and wishes.dim is not None:
        name = name._replace(dim=wishes.dim)
    return name


def _model(kind: str, name: Name, wishes: Wishes) -> Embedder:
    if kind == "openai":
        from .openai import DEFAULT_TIMEOUT, OpenAIEmbedder

        timeout = wishes.timeout or DEFAULT_TIMEOUT
        return OpenAIEmbedder(name, url=wishes.url, key=wishes.key, timeout=timeout, form=wishes.form)
    if kind == "ollama":
        from .ollama import DEFAULT_TIMEOUT, OllamaEmbedder

        timeout = wishes.timeout or DEFAULT_TIMEOUT
        # A key is for the server that was set with it, not for whoever listens on Ollama's port here.
        key = wishes.key if wishes.url else None
        return OllamaEmbedder(name, url=wishes.url, key=key, timeout=timeout, form=wishes.form)
    if kind == "fastembed":
        from .fastembed import FastEmbedEmbedder

        return FastEmbedEmbedder(name, form=wishes.form, revision=wishes.revision)
    if kind == "model2vec":
        from .model2vec import Model2VecEmbedder

        return Model2VecEmbedder(name, form=wishes.form, revision=wishes.revision)
    from .sentence_transformers import SentenceTransformersEmbedder

    return SentenceTransformersEmbedder(name, form=wishes.form, revision=wishes.revision)


def _cut(embedder: Embedder, dim: int | None) -> Embedder:
    if dim is None:
        return embedder
    from .cut import CutEmbedder

    return CutEmbedder(embedder, dim)


def _of_mark(mark: str) -> Wishes:
    """What a fingerprint says beside its spec."""
    parts = dict(part.partition("=")[::2] for part in mark.split("|")[1:])
    try:
        form = check_form(parts.get("prompt"))
    except ValueError:
        form = None
    try:
        dim = checked_dim(parts.get("dim"))
    except ValueError:
        dim = None
    return Wishes(form=form, revision=parts.get("revision"), dim=dim)


def like_home(embedder: Embedder, mark: str, wishes: Wishes) -> Embedder:
    """The same embedder in the form and version that a home's vectors were made with, if it can be had.

    Args:
        embedder: As it was asked for.
        mark: Fingerprint the home's vectors are stored under.
        wishes: What `embedder` was built with.
    """
    own = embedder.fingerprint
    spec = spec_of(own)
    if own == mark or spec != spec_of(mark) or kind_of(spec) not in MODEL_KINDS:
        return embedder
    then = _of_mark(mark)
    if wishes.prompt is not None and wishes.prompt != then.form:
        return embedder  # somebody wants this form and no other
    try:
        again = build(spec, wishes._replace(prompt=None, dim=None, form=then.form, revision=then.revision))
    except EmbedderError:
        return embedder
    return again if again is not None and again.fingerprint == mark else embedder


def from_home(mark: str, settings: Settings) -> tuple[Embedder | None, str]:
    """The embedder a home was made with, if it can be had without loading code or calling unasked servers.

    Args:
        mark: Fingerprint the home's vectors are stored under.
        settings: The caller's settings.

    Returns:
        The embedder, or None and why not.

    Raises:
        EmbedderUnavailable: It is not on this machine; says what to do.
    """
    spec = spec_of(mark)
    kind, rest = kind_of(spec), spec.partition(":")[2]
    url, key = settings.get("embedder_url"), settings.get("embedder_key")
    if kind == "given":
        return None, (
            "the vectors of this home were given by the caller; give those of questions and records too, or "
            "make all with a model: `otolith reindex --embedder SPEC`"
        )
    if kind == "openai" and url is None and key is None:  # else questions would go to a server nobody named
        return None, f"this home uses {spec}; set OTOLITH_EMBEDDER_URL to the server that has it"
    # A model is loaded from the caches of this user only, never from where a home says.
    if kind not in ("hash", *MODEL_KINDS) or (kind != "openai" and is_path(rest)):
        return None, f"this home uses {spec}; ask for it with `otolith config set embedder {spec}`"
    then = _of_mark(mark)
    if not settings.may_follow_embedder(spec):
        from .auto import may_take

        if not may_take(kind, model_of(spec) or "", then.revision):
            trust = f"`otolith trust {settings.home}`"
            return None, f"this home uses {spec} and is not trusted; look at it, then say {trust}"
    embedder = build(spec, then._replace(url=url, key=key))
    if embedder is None or embedder.fingerprint != mark:
        return None, f"this home uses {mark}, which this version cannot make"
    return embedder, "home"
