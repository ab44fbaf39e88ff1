"""The command that plants every known fault: it needs the sources and the tests."""

import os
from pathlib import Path

import click

from chaos.cli import SEEDS_MAX
from chaos.mutants.catalogue import MUTANTS
from chaos.mutants.runner import SEEDS_MAX as MUTANT_SEEDS_MAX
from chaos.mutants.runner import document as table
from chaos.mutants.runner import judged
from chaos.profile_names import PROFILES


@click.command("mutants")
@click.option(
    "--seeds", type=click.IntRange(1, SEEDS_MAX), default=MUTANT_SEEDS_MAX, show_default=True
)
@click.option("--jobs", type=click.IntRange(1, 1_000), default=None, help="Processes at a time.")
@click.option("--only", default="", help="Run only mutants with this text in their name.")
@click.option(
    "--kind", type=click.Choice(list(PROFILES)), help="Run only mutants of this kind of run."
)
@click.option(
    "--write",
    "document",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the results into the table of this document.",
)
def run_mutants(
    seeds: int, jobs: int | None, only: str, kind: str | None, document: Path | None
) -> None:
    """Run each mutant in its own process; exit with 1 if one is not caught."""
    mutants = [each for each in MUTANTS if only in each.name and kind in (None, each.kind)]
    if not mutants:
        raise click.UsageError(f"no mutant of {kind or 'any kind'} has {only!r} in its name")
    verdicts = []
    for verdict in judged(mutants, seeds=seeds, jobs=jobs or os.cpu_count() or 1):
        verdicts.append(verdict)
        click.echo(str(verdict))
    if document is not None:
        before = document.read_text(encoding="utf-8") if document.exists() else ""
        try:
            text = table(verdicts, before, [each.name for each in MUTANTS])
        except KeyError as missing:
            text_missing = f"{missing} was not run, and {document} has no row for it"
            raise click.ClickException(text_missing) from missing
        document.write_text(text, encoding="utf-8")
    missed = [each for each in verdicts if not each.is_caught]
    for each in missed:
        click.echo(f"\n{each.mutant}:\n{each.output}", err=True)
    if missed:
        raise click.ClickException(f"{len(missed)} of {len(verdicts)} mutants are not caught")
