"""`otolith reindex`."""

from typing import TYPE_CHECKING

import click

from otolith.cli._command import command as make
from otolith.cli._fields import embedding_options
from otolith.cli._invocation import Invocation
from otolith.cli._open import open_existing, settings_of
from otolith.cli._progress import progress
from otolith.cli._text import counted

if TYPE_CHECKING:
    from otolith import ReindexReport


@make(
    "reindex", ["otolith reindex --embedder hash:64 --dry-run", "otolith reindex --embedder hash:64 --json"]
)
@click.option(
    "--embedder", metavar="SPEC", help="The model, as openai:bge-m3; by default the one that is set."
)
@click.option("--dry-run", is_flag=True, help="Only tell what there is to do.")
@embedding_options()
@click.pass_obj
def command(invocation: Invocation, embedder: str | None, dry_run: bool, batch: int, patience: float) -> None:
    """Make the vectors of all records with another model.

    The old vectors are searched until there are as many new ones; then the memory belongs to the new model,
    and the old ones are removed. It may be stopped at any time, and goes on from there when it is run again.
    Exit code 1 if any record got no vector in this run, or if the memory stays with the model it has.
    """
    with open_existing(invocation) as memory, progress(invocation, "reindexing") as tell:
        report = memory.reindex(
            embedder=embedder, dry_run=dry_run, batch=batch, patience=patience, progress=tell
        )
    if invocation.json:
        invocation.object("reindex", report.to_dict())
    for note in _words(report):
        invocation.note(note)
    if dry_run:
        return
    chosen = settings_of(invocation, tell_ignored=False).get("embedder")
    spec = report.embedder.partition("|")[0]
    if report.switched and embedder is not None and chosen not in ("auto", embedder, spec):
        invocation.note(
            f"the setting embedder is {chosen} still; say `otolith config set embedder {embedder}`"
        )
    if report.error is not None:
        invocation.failure(report.error)
    if report.error is not None or report.refused or report.remaining:
        invocation.exit_code = 1


def _words(report: "ReindexReport") -> list[str]:
    mark, of = report.embedder.partition("|")[0], counted(report.total, "record")
    before = None if report.previous is None else report.previous.partition("|")[0]
    if report.dry_run:
        words = f"{report.remaining} of {of} would be embedded with {mark}"
        if before not in (None, mark):
            words = f"{words}, and its vectors searched in place of those of {before}"
        return [words]
    told = [
        f"embedded {report.embedded}, refused {report.refused}, changed meanwhile {report.outdated}, "
        f"still waiting {report.remaining}; {report.vectorized} of {of} have a vector of {mark}"
    ]
    if report.switched:
        instead = f", in place of those of {before}" if before else ""
        told.append(f"vectors of {mark} are searched now{instead}")
    return told
