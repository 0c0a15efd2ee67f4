"""Which models know English only, and how much of some texts is in a script they cannot read."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["cjk_share", "english_only"]

# Many languages are said in the name of most models that know them, so that decides first.
_MANY = re.compile(
    r"multilingual|[-_]m3|(^|[-_/])(zh|ja|ko|cn|chinese|japanese|korean)([-_.]|$)|[-_]moe|clip-vit"
)
_ENGLISH = re.compile(
    r"all[-_]minilm|all[-_](mpnet|distilroberta)|paraphrase[-_]minilm|multi[-_]qa[-_]|msmarco[-_]"
    r"|(^|/)e5[-_](small|base|large)([-_:]|$)"
    r"|bge[-_](micro|small|base|large)[-_]en"
    r"|gte[-_](tiny|small|base|large)([-_:]|$)|gte[-_]modernbert"
    r"|nomic[-_]embed[-_]text([-_:]?v1|[:]|$)|modernbert[-_]embed"
    r"|mxbai[-_]embed[-_](large|xsmall|2d)"
    r"|arctic[-_]embed([-_:](xs|s|m|l|\d+m|latest)\b|$)(?!.*v2)"
    r"|potion[-_](base|retrieval|science)|m2v[-_]base"
    r"|jina[-_]embeddings[-_]v2[-_](small|base)[-_](en|code)"
    r"|granite[-_]embedding.*english|stella[-_]en|static[-_]retrieval[-_]mrl[-_]en"
)
# Kana, Han, Hangul, and the Han beyond the basic plane.
_CJK = re.compile("[぀-ヿㄅ-ㄯ㐀-鿿가-힯豈-﫿\U00020000-\U0003ffff]")
_LETTER = re.compile(r"[^\W\d_]")


def english_only(model: str) -> bool:
    """Whether a model is known to have learnt English only; False when nothing is known of it.

    Args:
        model: Model id, for instance `BAAI/bge-small-en-v1.5`.
    """
    name = model.lower()
    return _ENGLISH.search(name) is not None and _MANY.search(name) is None


def cjk_share(texts: Iterable[str]) -> float:
    """Which part of all letters is Chinese, Japanese or Korean, 0 to 1; 0 without letters.

    Args:
        texts: The texts.
    """
    cjk = letters = 0
    for text in texts:
        cjk += len(_CJK.findall(text))
        letters += len(_LETTER.findall(text))
    return cjk / letters if letters else 0.0
