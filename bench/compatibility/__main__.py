"""Ask a cluster with embedded brokers, and one with Kafka's, with every client and call.

`--write` writes the table of calls into the document if each had the expected result; without it
the differences are printed.
"""

import asyncio
import platform
import random
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Final

import click

from admin.faults import AdminError
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import Wanted, settle
from bench.compatibility import downloads, page
from bench.compatibility.clients import clients
from bench.compatibility.model import Act, Call, Case, Client, Failed, Place
from bench.compatibility.site import Site, opened
from bench.faults import RunFailed
from bench.options import document_option
from bench.report import Section
from bench.rivals import version_of
from quorum.process import loop_factory

KAFKA: Final = "4.3.1"
"""The release of Kafka's brokers."""
CONTROLLERS: Final = 3
BROKERS: Final = 3
START_MS: Final = 180_000
READ_AGAIN_SECONDS: Final = 15
"""The time for which a call that only reads is repeated: brokers may be behind in the log."""
SAID_CHARACTERS_MAX: Final = 500
PAUSE_SECONDS: Final = 0.3
SECTION: Final = "compatibility"
RUN_SECTION: Final = "compatibility-run"
SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "broker.session.timeout.ms": "9s",
}
_PLACES: Final = {
    Place.EMBEDDED: (Place.EMBEDDED, Place.CONTROLLERS),
    Place.KAFKA: (Place.KAFKA,),
}
"""The places that a cluster with these brokers is."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one call at one place."""

    client: Client
    call: Call
    place: Place
    failure: str | None

    @property
    def difference(self) -> str | None:
        """The difference from the expected result; None if there is none."""
        expected = self.call.refusal(self.place)
        if self.failure is None:
            if expected is None or expected.by_chance:
                return None
            return "it works, and was expected not to"
        if expected is None:
            return self.failure
        if re.search(expected.said, self.failure, re.IGNORECASE):
            return None
        return f"it fails in other words than {expected.said!r}: {self.failure}"

    def __str__(self) -> str:
        who = f"{self.client.name} {self.client.version}"
        if self.call.program:
            who = f"{self.call.program} {self.client.version}"
        answer = "yes" if self.failure is None else "no"
        return f"{who}: {self.call.operation.label}, {self.place}: {answer}"


class Asker:
    """Carries out calls of clients at one cluster, each with names of its own."""

    def __init__(self, site: Site, folder: Path, choose: Callable[[str], bool]) -> None:
        """`choose` is given the label of an operation."""
        self._site = site
        self._folder = folder
        self._choose = choose
        self._numbers = count(1)

    def ask(self, client: Client, places: Sequence[Place]) -> Iterator[Outcome]:
        """Carry out all calls of a client at these places."""
        folder = self._folder / f"{client.name.split()[-1]}-{client.version}"
        folder.mkdir(parents=True, exist_ok=True)
        with client.start(folder) as carry_out:
            for call in client.calls:
                for place in places:
                    if place in call.places and self._choose(call.operation.label):
                        case = self._case(client, call, place, folder)
                        yield Outcome(client, call, place, self._failure(call, case, carry_out))

    def _case(self, client: Client, call: Call, place: Place, folder: Path) -> Case:
        at_controllers = place is Place.CONTROLLERS
        servers = self._site.controllers if at_controllers else self._site.servers
        word = "".join(re.findall(r"[a-z]", client.name.lower()))[:6]
        case = Case(
            site=self._site,
            place=place,
            servers=servers,
            name=f"{word}-c{next(self._numbers):05}",
            folder=folder,
            codecs=client.codecs,
        )
        return replace(case, **call.operation.given)

    def _failure(self, call: Call, case: Case, carry_out: Callable[[Case, Act], str]) -> str | None:
        operation = call.operation
        ends = perf_counter() + READ_AGAIN_SECONDS
        try:
            operation.prepare(case)
        except (AdminError, AssertionError, TimeoutError) as error:
            raise RunFailed(
                f"{operation.label} at {case.place} is not prepared: {error}"
            ) from error
        try:
            while True:
                said = ""
                try:
                    said = carry_out(case, call.act)
                    operation.judge(case, said)
                    return None
                except Failed as failed:
                    again = operation.only_reads and call.refusal(case.place) is None
                    if not again or perf_counter() > ends:
                        return (
                            f"{failed}; it said: {said[-SAID_CHARACTERS_MAX:]}"
                            if said
                            else str(failed)
                        )
                Event().wait(PAUSE_SECONDS)
        finally:
            with suppress(AdminError):
                operation.clean_up(case)


async def _at(
    brokers: Place, folder: Path, chosen: Sequence[Client], choose: Callable[[str], bool]
) -> list[Outcome]:
    """The outcomes of all calls at a new cluster with brokers of this kind."""
    version = KAFKA if brokers is Place.KAFKA else None
    runtime = None if version is None else downloads.kafka_tools(version)
    wanted = Wanted(controllers=CONTROLLERS, brokers=BROKERS, base_port=0, kafka=version)
    plan = settle(folder / "cluster", wanted, random.SystemRandom())
    cluster = LocalCluster(folder / "cluster", plan, settings=SETTINGS, runtime=runtime)
    found: list[Outcome] = []
    try:
        await cluster.start(within_ms=START_MS)
        async with opened(cluster) as site:
            asker = Asker(site, folder / "clients", choose)

            def ask_all() -> None:
                for client in chosen:
                    for outcome in asker.ask(client, _PLACES[brokers]):
                        found.append(outcome)
                        click.echo(str(outcome))
                        if outcome.difference is not None:
                            click.echo(f"    {outcome.difference}")

            await asyncio.to_thread(ask_all)
    finally:
        await cluster.stop()
    if not cluster.ended.empty():
        raise RunFailed(str(cluster.ended.get_nowait()))
    return found


def _facts(outcomes: Sequence[Outcome]) -> str:
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    java = version_of(downloads.kafka_tools(KAFKA).java)
    return "\n".join(
        (
            f"- {len(outcomes)} calls, each by the client itself, at clusters of {CONTROLLERS} "
            f"controllers and {BROKERS} brokers",
            f"- Kafka's brokers: {KAFKA}",
            f"- Python {platform.python_version()}, {java}, Node {node.stdout.strip()[1:]}",
            "",
        )
    )


@click.command()
@document_option
@click.option("--client", "names", multiple=True, help="Only clients with this in their name.")
@click.option("--release", "releases", multiple=True, help="Only this version of a client.")
@click.option("--only", "labels", multiple=True, help="Only operations with this in their label.")
@click.option("--at", "places", multiple=True, type=click.Choice(["embedded", "kafka"]))
def main(
    document: Path | None,
    names: Sequence[str],
    releases: Sequence[str],
    labels: Sequence[str],
    places: Sequence[str],
) -> None:
    """Ask with every client, and compare the results with the table of calls."""
    try:
        _run(document, names, releases, labels, places)
    except RunFailed as error:
        raise click.ClickException(str(error)) from None


def _run(
    document: Path | None,
    names: Sequence[str],
    releases: Sequence[str],
    labels: Sequence[str],
    places: Sequence[str],
) -> None:
    if document is not None and (names or releases or labels or places):
        raise RunFailed("--write needs a run of everything: leave the other options out")
    sections = [Section(document, name) for name in (SECTION, RUN_SECTION)] if document else []
    chosen = [
        each
        for each in clients()
        if (not names or any(name.lower() in each.name.lower() for name in names))
        and (not releases or each.version in releases)
    ]
    if not chosen:
        known = sorted({f"{each.name} {each.version}" for each in clients()})
        raise RunFailed(f"no client is meant; there are {', '.join(known)}")
    outcomes: list[Outcome] = []
    for brokers, word in ((Place.EMBEDDED, "embedded"), (Place.KAFKA, "kafka")):
        if places and word not in places:
            continue
        with tempfile.TemporaryDirectory(prefix="compatibility-") as folder:

            def choose(label: str) -> bool:
                return not labels or any(word in label for word in labels)

            work = _at(brokers, Path(folder), chosen, choose)
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                outcomes += runner.run(work)
    if not outcomes:
        raise RunFailed("no operation is meant: --only takes words of the table in the document")
    different = [each for each in outcomes if each.difference is not None]
    for each in different:
        click.echo(f"{each}\n    {each.difference}", err=True)
    if different:
        raise RunFailed(f"{len(different)} of {len(outcomes)} calls are not as the table has them")
    if sections:
        sections[0].write(page.as_markdown(clients()))
        sections[1].write(_facts(outcomes))
    click.echo(f"{len(outcomes)} calls are as the table has them")


main()
