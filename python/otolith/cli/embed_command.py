"""`otolith embed`."""

import click

from otolith.cli._command import command as make
from otolith.cli._fields import embedding_options
from otolith.cli._invocation import Invocation
from otolith.cli._open import open_existing
from otolith.cli._progress import progress


@make("embed", ["otolith embed", "otolith embed --batch 16 --json"])
@embedding_options()
@click.pass_obj
def command(invocation: Invocation, batch: int, patience: float) -> None:
    """Make the vectors that are missing.

    It may be stopped at any time, and goes on from there when it is run again. A server that is busy is asked
    again, as it says when. Which embedder is used is a setting; see `otolith config show`.
    """
    with open_existing(invocation) as memory, progress(invocation, "embedding") as tell:
        report = memory.embed_pending(batch=batch, patience=patience, progress=tell)
    if invocation.json:
        invocation.object("embed", report.to_dict())
    invocation.note(
        f"embedded {report.embedded}, refused {report.refused}, changed meanwhile {report.outdated}, "
        f"still waiting {report.remaining}"
    )
    if report.error is not None:
        invocation.failure(report.error)
        invocation.exit_code = 1
