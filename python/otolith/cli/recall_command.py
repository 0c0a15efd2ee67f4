"""`otolith recall`."""

import math
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from otolith.cli._command import command as make
from otolith.cli._fields import filter_options, make_filter
from otolith.cli._invocation import Invocation
from otolith.cli._open import open_existing, short_ids
from otolith.cli._show import explanation_lines, full_text, hit_line
from otolith.cli._text import counted, terminal_width
from otolith.cli._values import LegsText, QueryText

if TYPE_CHECKING:
    from otolith import Report

_ABOVE = "see the warning above"


@make(
    "recall",
    [
        'otolith recall "why does the client back off?"',
        "otolith recall retries -k 3 --tag http --since 2026-01-01 --explain",
        "otolith recall retries --json",
    ],
)
@click.argument("query", type=QueryText())
@click.option("-k", type=click.IntRange(min=0), default=10, show_default=True, help="How many hits at most.")
@filter_options()
@click.option("--explain", is_flag=True, help="Show how the query was read and how each score came about.")
@click.option("--full", is_flag=True, help="Show title, summary and body of each hit whole.")
@click.option(
    "--min-relevance",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Leave out hits whose number after `relevant` is lower.",
)
@click.option(
    "--fusion",
    type=click.Choice(["weighted", "rrf"]),
    default="weighted",
    show_default=True,
    help="How the legs are put together.",
)
@click.option("--legs", type=LegsText(), metavar="LEG[,LEG]", help="Only these legs: lexical, vector.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    query: str,
    k: int,
    explain: bool,
    full: bool,
    min_relevance: float,
    fusion: Literal["weighted", "rrf"],
    legs: list[str] | None,
    **filters: Any,
) -> None:
    """Ask; the best records first: rank, score, relevance, date, id, title and the line that answers best.

    Words in quotation marks must stand in a record as they are. A word that no record holds is taken for
    those that begin with it or differ by a typo; --explain tells for which.

    The score orders the hits of one question; relevance, 0 to 1, can be compared between questions. On a
    terminal the words that were found are bold. On stderr one line says how long it took, with making the
    vector of the question, which legs of the search ran, and why others did not. No hit is an answer too: the
    exit code is 0, and stderr says why there is none.
    """
    chosen = make_filter(filters)
    with open_existing(invocation) as memory:
        started = time.perf_counter()
        report = memory.recall(
            query, k, filter=chosen, explain=explain, min_relevance=min_relevance, fusion=fusion, legs=legs
        )
        seconds = time.perf_counter() - started
        ids = [] if invocation.json else short_ids(memory, [hit.id for hit in report])
    if invocation.json:
        invocation.object("recall", report.to_dict())
    else:
        _show(invocation, report, ids, explain=explain, full=full)
    hits = f"{counted(len(report), 'hit')} of {report.considered} in {seconds * 1000:.1f} ms"
    if len(report):
        invocation.note(f"{hits}; {legs_in_short(report, invocation.warned)}")
    else:
        invocation.note(hits)
        invocation.note(why_empty(report, invocation.warned))


def legs_in_short(report: "Report", warned: Sequence[str]) -> str:
    """Returns every leg with what became of it, in a few words: the next step is for `otolith status`.

    Args:
        report: The answer.
        warned: What was told already.
    """
    legs = []
    for name, leg in report.legs.items():
        if leg.ran:
            how = "" if leg.method is None else f", {leg.method}"
            legs.append(f"{name} ran ({leg.candidates}{how})")
        else:
            reason = leg.reason or ""
            legs.append(f"{name} did not run ({_ABOVE if reason in warned else reason.partition('; ')[0]})")
    return ", ".join(legs)


def why_empty(report: "Report", warned: Sequence[str]) -> str:
    """Returns why there are no hits, without the reasons that were told already.

    Args:
        report: The answer.
        warned: What was told already.
    """
    why = report.why_empty()
    for leg in report.legs.values():
        if leg.reason is not None and leg.reason in warned:
            why = why.replace(leg.reason, _ABOVE)
    return why


def _show(invocation: Invocation, report: "Report", ids: list[str], *, explain: bool, full: bool) -> None:
    colorless = click.get_current_context().meta.get("otolith.color") == "never"
    stands_out = terminal_width(sys.stdout) is not None and not colorless

    def tell(head: str, text: str) -> None:
        bold = report.analysis.spans(text) if stands_out else []
        invocation.data(head + text, [(start + len(head), end + len(head)) for start, end in bold])

    if explain:
        terms = ", ".join(report.analysis.terms) or "no terms"
        invocation.data(f"query   {report.analysis.text}\nterms   {terms}")
        for word, others in report.analysis.expansions.items():
            invocation.data(f"taken   {word} → {', '.join(others)}")
        for effect in report.filters:
            invocation.data(f"filter  {effect.name} alone leaves {effect.left}")
    for rank, (hit, shown) in enumerate(zip(report, ids, strict=True), 1):
        # Rounded down: the number that is shown, given to --min-relevance, keeps the hit.
        relevance = math.floor(hit.relevance * 100) / 100
        numbers = f"{hit.score:.2f} relevant {relevance:.2f}"
        head = (f"{rank:>2}", numbers, f"{hit.timestamp:%Y-%m-%d}", shown)
        if full:
            invocation.data("  ".join(head))
            tell("", "\n".join(full_text(hit.episode)))
        else:
            tell(*hit_line(*head, hit=hit, spans=report.analysis.spans))
        if explain and hit.explanation is not None:
            invocation.data("\n".join(explanation_lines(hit.explanation)))
