"""`otolith recall`."""

from typing import TYPE_CHECKING, Any, Literal

import click

from otolith.cli._command import command as make
from otolith.cli._fields import filter_options, make_filter
from otolith.cli._invocation import Invocation
from otolith.cli._open import open_existing, short_ids
from otolith.cli._show import explanation_lines, full_text, one_line

if TYPE_CHECKING:
    from otolith import Report

_SHORTENED = 100


@make(
    "recall",
    [
        'otolith recall "why does the client back off?"',
        "otolith recall retries -k 3 --tag http --since 2026-01-01 --explain",
        "otolith recall retries --json",
    ],
)
@click.argument("query")
@click.option("-k", type=click.IntRange(min=0), default=10, show_default=True, help="How many hits at most.")
@filter_options()
@click.option("--explain", is_flag=True, help="Show how the query was read and how each score came about.")
@click.option("--full", is_flag=True, help="Show the whole text of each hit.")
@click.option(
    "--min-relevance",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Leave out what is less relevant.",
)
@click.option(
    "--fusion",
    type=click.Choice(["weighted", "rrf"]),
    default="weighted",
    show_default=True,
    help="How the legs are put together.",
)
@click.option("--legs", metavar="LEG[,LEG]", help="Only these legs: lexical, vector.")
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
    legs: str | None,
    **filters: Any,
) -> None:
    """Ask; the best memories first: rank, score, date, id, text.

    On stderr one line says which legs of the search ran, and why others did not. No hit is an answer too: the
    exit code is 0, and stderr says why there is none.
    """
    chosen = make_filter(filters)
    wanted = None if legs is None else [leg.strip() for leg in legs.split(",") if leg.strip()]
    with open_existing(invocation) as memory:
        report = memory.recall(
            query, k, filter=chosen, explain=explain, min_relevance=min_relevance, fusion=fusion, legs=wanted
        )
        ids = [hit.id for hit in report]
        ids = short_ids(memory, ids) if len(ids) <= _SHORTENED and not invocation.json else ids
    if invocation.json:
        invocation.object("recall", report.to_dict())
    else:
        _show(invocation, report, ids, explain=explain, full=full)
    invocation.note(summary_line(report))
    if not len(report):
        invocation.note(report.why_empty())


def summary_line(report: "Report") -> str:
    """Returns one line: hits, records looked at, time, and every leg with what became of it."""
    legs = []
    for name, leg in report.legs.items():
        legs.append(f"{name} ran ({leg.candidates})" if leg.ran else f"{name} did not run ({leg.reason})")
    hits = f"{len(report)} {'hit' if len(report) == 1 else 'hits'}"
    return f"{hits} of {report.considered} in {report.elapsed_us / 1000:.1f} ms; " + ", ".join(legs)


def _show(invocation: Invocation, report: "Report", ids: list[str], *, explain: bool, full: bool) -> None:
    if explain:
        terms = ", ".join(report.analysis.terms) or "no terms"
        invocation.data(f"query   {report.analysis.text}\nterms   {terms}")
        for effect in report.filters:
            invocation.data(f"filter  {effect.name} alone leaves {effect.left}")
    width = max((len(one) for one in ids), default=0)
    for rank, (hit, shown) in enumerate(zip(report, ids, strict=True), 1):
        head = (f"{rank:>2}", f"{hit.score:.3f}", f"{hit.timestamp:%Y-%m-%d}", f"{shown:<{width}}")
        if full:
            invocation.data("  ".join(head))
            invocation.data("\n".join(full_text(hit.text)))
        else:
            invocation.data(one_line(*head, text=hit.text))
        if explain and hit.explanation is not None:
            invocation.data("\n".join(explanation_lines(hit.explanation)))
