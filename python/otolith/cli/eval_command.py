"""`otolith eval`."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from otolith.cli._command import PathText, SharedGroup
from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import settings_of
from otolith.cli._progress import progress
from otolith.cli._text import counted

if TYPE_CHECKING:
    from otolith.evaluation import Comparison, Dataset, Run

command = SharedGroup(
    name="eval",
    help="Measure recall on questions with known answers.\n\nA dataset is the name of one that ships, a "
    "folder in BEIR's layout, the JSON of LoCoMo, or cases in YAML, TOML or JSON: see docs/evaluation.md.",
    examples=(
        "otolith eval list",
        "otolith eval run coding-agent-life --embedder none -o run.json",
        "otolith eval compare run.json run.json",
    ),
    no_args_is_help=True,
)

_SHOWN = ("share@1", "share@5", "share@10", "all@10", "mrr", "ndcg@10")
_CHANGES = 10
_CATEGORIES = 8
_ROWS = ("grep", "lexical", "vector", "hybrid")


@make("list", ["otolith eval list", "otolith eval list --json"])
@click.pass_obj
def list_(invocation: Invocation) -> None:
    """List the datasets that ship: name, licence, what it is."""
    from otolith.evaluation import SHIPPED

    if invocation.json:
        datasets = [
            {"name": one.name, "licence": one.licence, "summary": one.summary, "folder": str(one.folder)}
            for one in SHIPPED.values()
        ]
        invocation.object("eval", {"datasets": datasets})
        return
    width = max(len(name) for name in SHIPPED)
    for one in SHIPPED.values():
        invocation.data(f"{one.name:<{width}}  {one.licence:<10}  {one.summary}")


@make(
    "run",
    [
        "otolith eval run coding-agent-life --embedder none",
        "otolith eval run memorybank-zh --embedder none --row lexical -o zh.json",
    ],
)
@click.argument("dataset", metavar="DATASET", type=PathText())
@click.option(
    "-o", "--output", metavar="RUN", type=PathText(), help="Write the run, question by question, as JSON."
)
@click.option(
    "--embedder", metavar="SPEC", help="Embedder instead of the one that is set; none for words alone."
)
@click.option(
    "--row",
    "rows",
    multiple=True,
    type=click.Choice(_ROWS),
    help="Only this way of searching; may be repeated. By default grep and lexical, with an embedder all.",
)
@click.option(
    "-k", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="Hits of an answer."
)
@click.option(
    "--work",
    metavar="DIR",
    type=PathText(),
    help="Keep the memories here; the next run goes on with their vectors.",
)
@click.pass_obj
def run(
    invocation: Invocation,
    dataset: str,
    output: str | None,
    embedder: str | None,
    rows: tuple[str, ...],
    k: int,
    work: str | None,
) -> None:
    """Ask every question of DATASET and judge the answers.

    One line a row: grep (what counting words finds), lexical, vector, hybrid. The legs that ran are told, and
    one that was asked for and did not run is an error. Each collection is a memory of its own, which is
    deleted afterwards; cases without records are asked of the home.
    """
    from otolith.evaluation import evaluate, load

    settings = settings_of(invocation)
    asked = load(dataset)
    if work is not None and all(one.records is None for one in asked.collections):
        raise click.UsageError("--work is for datasets with records; these cases are asked of the home")
    with progress(invocation, "asking") as tell:
        done = evaluate(
            asked,
            rows=rows or None,
            k=k,
            embedder=embedder if embedder is not None else "auto",
            config=settings,
            home=settings.home,
            work=work,
            progress=tell,
        )
    if output is not None:
        done.write(output)
    if invocation.json:
        invocation.object("eval.run", done.to_dict(answers=False))
        return
    for line in _table(done):
        invocation.data(line)
    _tell(invocation, asked, done)


def _table(run: "Run") -> Iterator[str]:
    width = max(map(len, run.summaries))
    yield "  ".join([f"{'row':<{width}}", *(f"{name:>8}" for name in _SHOWN), "  p50 ms", "  p95 ms"])
    for row, content in run.summaries.items():
        values = [_number(content["measures"].get(name)) for name in _SHOWN]
        times = [f"{content[name] / 1e3:>8.2f}" for name in ("p50_us", "p95_us")]
        yield "  ".join([f"{row:<{width}}", *values, *times])
        if "sessions" in content:
            values = [_number(content["sessions"].get(name)) for name in _SHOWN]
            yield "  ".join([f"{'':<{width}}", *values, "by session"])


def _number(value: float | None) -> str:
    return f"{'-' if value is None else format(value, '.3f'):>8}"


def _tell(invocation: Invocation, asked: "Dataset", done: "Run") -> None:
    of = "of the home" if asked.records is None else f"in {counted(asked.records, 'record')}"
    invocation.note(f"{counted(asked.questions, 'question')} {of}; k = {done.settings['k']}")
    embedder = done.settings["embedder"]
    if embedder is not None:
        invocation.note(f"embedder {embedder}")
    for reason, count in done.dataset["left_out"].items():
        invocation.note(f"left out: {reason} ({count})")
    for row, content in done.summaries.items():
        for line in _notes(content):
            invocation.note(f"{row}: {line}")


def _notes(content: Mapping[str, Any]) -> Iterator[str]:
    if content["legs"]:
        yield "legs that ran: " + ", ".join(f"{leg} for {count}" for leg, count in content["legs"].items())
    for name in ("share@10", "mrr"):
        if name in content["intervals"]:
            low, high = content["intervals"][name]
            yield f"{name} {content['measures'][name]:.3f}, 95 % between {low:.3f} and {high:.3f}"
    if content["no_answer"]:
        yield f"nothing found: {content['no_answer']:.3f} of the questions that have an answer"
    if content["refused"] is not None:
        yield f"nothing found: {content['refused']:.3f} of the questions that have none"
    if content["leaked"]:
        yield f"found what must not be found: {counted(content['leaked'], 'hit')}"
    categories = content.get("categories", {})
    for name, values in categories.items() if len(categories) <= _CATEGORIES else ():
        if "share@10" in values:
            share, mrr = (format(values[measure], ".3f") for measure in ("share@10", "mrr"))
            yield f"{name} ({values['questions']}): share@10 {share}, mrr {mrr}"


@make("compare", ["otolith eval compare run.json run.json"])
@click.argument("before", metavar="A", type=PathText())
@click.argument("after", metavar="B", type=PathText())
@click.option(
    "--by", default="share@10", show_default=True, metavar="MEASURE", help="What wins and losses are told by."
)
@click.pass_obj
def compare(invocation: Invocation, before: str, after: str, by: str) -> None:
    """Compare two runs of one dataset: what changed from A to B, and for which questions.

    A change is told with the interval that 95 of 100 resamples of the questions give (of the collections,
    where there are several). Runs of different datasets or numbers of hits are refused.
    """
    from otolith.evaluation import Run
    from otolith.evaluation import compare as compared

    runs = (Run.read(before), Run.read(after))
    found = compared(*runs, by=by)
    if invocation.json:
        invocation.object("eval.compare", {"rows": [one.to_dict() for one in found]})
        return
    for one in found:
        for line in _changes(one):
            invocation.data(line)
    for name in ("analyzer", "embedder"):
        values = [run.settings.get(name) for run in runs]
        if values[0] != values[1]:
            invocation.note(f"{name}: {values[0]} before, {values[1]} now")
    if runs[0].version != runs[1].version:
        invocation.note(f"version: {runs[0].version} before, {runs[1].version} now")


def _changes(one: "Comparison") -> Iterator[str]:
    for name in _SHOWN:
        if name in one.measures:
            values = one.measures[name]
            low, high = values["interval"]
            yield (
                f"{one.row:<8} {name:<8} {values['before']:.3f} -> {values['after']:.3f}  "
                f"{values['change']:+.3f} ({low:+.3f} to {high:+.3f})"
            )
    for what, changes in (("better", one.wins), ("worse", one.losses)):
        for change in changes[:_CHANGES]:
            yield (
                f"{one.row:<8} {what:<8} {change.before:.3f} -> {change.after:.3f}  {change.question}  "
                f"{' '.join(change.text.split())}"
            )
        if len(changes) > _CHANGES:
            yield f"{one.row:<8} {what:<8} and {counted(len(changes) - _CHANGES, 'more question')}"


for _one in (run, compare, list_):
    command.add_command(_one)
