"""`metaquorum migrate`: from Kafka's controllers to ours while the cluster runs, and back."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import (
    ADDRESSED_VOTERS,
    ADDRESSES,
    BROKERS,
    DURATION,
    BadInput,
    Exit,
    add_options,
    client_config,
    command_config_option,
    command_line,
    output_option,
    run,
    say,
    show,
    write,
)

if TYPE_CHECKING:
    from admin.tools.migrate.observation import Cluster
    from admin.tools.migrate.state import Finding, Look, Step
    from quorum.core.vocabulary import ReplicaId
    from quorum.transport.address import Address

FILE_BYTES_MAX: Final = 1024 * 1024
TIMEOUT_MS: Final = 15_000
WITHIN_MS: Final = 600_000
SESSION_MS: Final = 9_000


_options: Final = add_options(
    click.option(
        "--from",
        "kafkas",
        type=ADDRESSES,
        required=True,
        help="Kafka's controllers: all of them for the way back.",
    ),
    click.option(
        "--controllers",
        "ours",
        type=ADDRESSED_VOTERS,
        required=True,
        help="Our controllers, which take their place.",
    ),
    command_config_option,
    click.option(
        "--timeout",
        "timeout_ms",
        type=DURATION,
        default=f"{TIMEOUT_MS}ms",
        show_default="15s",
        help="Give up a single request after this time, elections included.",
    ),
)
_within_option: Final = click.option(
    "--within",
    "within_ms",
    type=DURATION,
    default=f"{WITHIN_MS}ms",
    show_default="10min",
    help="Stop waiting after this time; give the command again to go on. A change that has been "
    "requested is waited for, --timeout at most.",
)


_rolled_option: Final = click.option(
    "--rolled",
    type=BROKERS,
    default=(),
    help="Brokers that have the new addresses, if they do not say it themselves.",
)


def _with_cluster(
    work: "Callable[..., Coroutine[Any, Any, Exit]]",
) -> Callable[..., None]:
    """Add the options for the two sides, and run `work` with the `Cluster` and the others."""

    @_options
    @click.pass_context
    @wraps(work)
    def command(
        ctx: click.Context,
        /,
        kafkas: "tuple[Address, ...]",
        ours: "Mapping[ReplicaId, Address]",
        command_config: Path | None,
        timeout_ms: int,
        **options: Any,
    ) -> None:
        from admin.client.command_config import NO_CONFIG
        from admin.tools.migrate.observation import Cluster

        common = set(kafkas) & set(ours.values())
        if common:
            raise click.UsageError(
                f"{min(common)} is in --from and in --controllers: a controller is of one kind"
            )
        config = NO_CONFIG if command_config is None else client_config(command_config)

        async def with_cluster() -> Exit:
            places = {int(id): address for id, address in ours.items()}
            async with Cluster(kafkas, places, config=config, timeout_ms=timeout_ms) as cluster:
                return await work(cluster, **options)

        # The commands that wait are those that change something.
        more = ": give the command again, and it goes on where it stopped"
        ctx.exit(
            run(
                with_cluster(),
                if_interrupted="interrupted" + (more if "within_ms" in options else ""),
            )
        )

    return command


@click.group()
def command() -> None:
    """Migrate a running KRaft cluster to our controllers, and back.

    docs/migration.md is the guide. The state of a migration is that of the cluster: a command that
    was interrupted is given again, and goes on.
    """


@command.command()
@click.option("--back", "is_back", is_flag=True, help="Plan the way back to Kafka's controllers.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the settings of our controllers into this folder.",
)
@click.option(
    "--kafka-settings",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The server.properties of one of Kafka's controllers: it has what they do not tell.",
)
@_with_cluster
@output_option
async def plan(
    cluster: "Cluster", is_back: bool, folder: Path | None, file: Path | None, output: str
) -> Exit:
    """Look at the cluster, and say what stands in the way of a migration.

    Nothing is changed. With --kafka-settings, passwords and super users are taken over too, and the
    super users of our controllers that run are compared. Exit code 3: something stands in the way.
    """
    from admin.tools.migrate.executor import until_settled
    from admin.tools.migrate.findings import findings, is_blocked, is_misnamed, stale_brokers
    from admin.tools.migrate.guide import brokers_text, plan_data, plan_text, settings_text
    from admin.tools.migrate.state import Kind

    if is_back and (folder is not None or file is not None):
        raise click.UsageError(
            "--dir and --kafka-settings are for the settings of our controllers; omit them with "
            "--back"
        )
    told = {} if file is None else _settings_in(file)
    await until_settled(cluster)
    look = await _look(cluster, Kind.KAFKA if is_back else Kind.OURS)
    look = replace(look, kafka_settings={**look.kafka_settings, **told})
    found = findings(look)
    show(
        look,
        output,
        lambda look: plan_text(look, found, command=command_line()),
        lambda look: plan_data(look, found),
    )
    is_sound = not is_misnamed(look)
    if folder is not None:
        if is_sound:
            for line in _write_settings(look, folder):
                say(line)
        else:
            say(f"Nothing is written into {folder}: correct --controllers first")
    if output == "table":
        is_new = any(each.kind is None for each in look.probes.values())
        if not is_back and folder is None and is_new and is_sound:
            write(f"\nOur controllers; --dir FOLDER writes these files:\n\n{settings_text(look)}")
        if stale_brokers(look) is not None:
            write(f"\n{brokers_text(look.settings)}")
    return Exit.NOT_FINISHED if is_blocked(found) else Exit.DONE


@command.command()
@_rolled_option
@_within_option
@_with_cluster
async def start(cluster: "Cluster", rolled: tuple[int, ...], within_ms: int) -> Exit:
    """Let our controllers take the place of Kafka's, one by one.

    Waits for ours to be started, and until each has caught up. Repeats the plan first. Exit code 3:
    something stands in the way, or the time was up.
    """
    from admin.tools.migrate.state import Kind

    return await _move(cluster, Kind.OURS, rolled, within_ms)


@command.command()
@_rolled_option
@_within_option
@_with_cluster
async def back(cluster: "Cluster", rolled: tuple[int, ...], within_ms: int) -> Exit:
    """Let Kafka's controllers take the place of ours again, one by one.

    --from names all of Kafka's controllers that are to vote; they must run. Exit code as `start`.
    """
    from admin.tools.migrate.state import Kind

    return await _move(cluster, Kind.KAFKA, rolled, within_ms)


@command.command()
@_with_cluster
@output_option
async def status(cluster: "Cluster", output: str) -> Exit:
    """Describe how far a migration has come, and what it waits for."""
    from admin.faults import AdminError
    from admin.tools.migrate.executor import wanted_of
    from admin.tools.migrate.guide import state_data, status_text

    quorum = await cluster.quorum()
    probes, contents = await cluster.probes(quorum), await cluster.contents(quorum)
    settings = await cluster.settings(contents.brokers)
    try:
        back_to = wanted_of(quorum, cluster.kafkas)
    except AdminError:
        back_to = {}
    show(
        quorum,
        output,
        lambda quorum: status_text(
            quorum, contents, probes, settings, forward=cluster.ours, back=back_to
        ),
        lambda quorum: state_data(quorum, contents, probes),
    )
    return Exit.DONE


@command.command()
@_rolled_option
@click.option(
    "--session",
    "session_ms",
    type=DURATION,
    default=f"{SESSION_MS}ms",
    show_default="9s",
    help="The broker.session.timeout.ms of the brokers, the longest if they differ.",
)
@_within_option
@_with_cluster
async def finish(
    cluster: "Cluster", rolled: tuple[int, ...], session_ms: int, within_ms: int
) -> Exit:
    """Retire the controllers that have no vote any more: Kafka's after `start`, ours after `back`.

    Waits until every broker has the addresses of those that stay, and says which controllers to
    stop: the last one when no broker was fenced for longer than a session. Exit code 3: the time
    was up. Exit code 1: nothing has been started, or controllers of both kinds vote.
    """
    from admin.tools.migrate.executor import UNANSWERED, retire, until
    from admin.tools.migrate.planner import unstarted
    from admin.tools.migrate.state import Kind
    from quorum.clocks import monotonic_ms

    deadline_ms = monotonic_ms() + within_ms
    try:
        async with until(deadline_ms):
            quorum = await cluster.quorum()
    except TimeoutError:
        return _ended(UNANSWERED)
    votes = {each.kind for each in quorum.voters}
    if len(votes) != 1:
        raise click.ClickException(
            "controllers of both kinds vote: let `migrate start`, or `back`, end first"
        )
    reason = unstarted(quorum)
    if reason is not None:
        raise click.ClickException(reason)
    stays = Kind.OURS if Kind.OURS in votes else Kind.KAFKA
    return _ended(
        await retire(
            cluster,
            stays,
            confirmed=frozenset(rolled),
            session_ms=session_ms,
            deadline_ms=deadline_ms,
            say=_say_with_time,
        )
    )


async def _look(cluster: "Cluster", into: Any, rolled: tuple[int, ...] = ()) -> "Look":
    from admin.tools.migrate.executor import wanted_of
    from admin.tools.migrate.state import Kind, Look

    quorum = await cluster.quorum()
    wanted = cluster.ours if into is Kind.OURS else wanted_of(quorum, cluster.kafkas)
    contents = await cluster.contents(quorum)
    kafka_settings: Mapping[str, str | None] = {}
    problem = None
    our_settings: Mapping[int, Mapping[str, str]] = {}
    our_problems: Mapping[int, str] = {}
    if into is Kind.OURS:
        kafka_settings, problem = await cluster.kafka_settings(quorum)
        our_settings, our_problems = await cluster.our_settings()
    return Look(
        into=into,
        quorum=quorum,
        contents=contents,
        settings=await cluster.settings(contents.brokers, frozenset(rolled)),
        wanted=wanted,
        probes=await cluster.probes(quorum),
        silent_kafkas=await cluster.silent_kafkas(quorum) if into is Kind.OURS else (),
        clock_ahead_ms=cluster.clock_ahead_ms,
        running_moves=await cluster.running_moves(quorum),
        kafka_settings=kafka_settings,
        kafka_settings_problem=problem,
        our_settings=our_settings,
        our_settings_problems=our_problems,
    )


async def _move(cluster: "Cluster", into: Any, rolled: tuple[int, ...], within_ms: int) -> Exit:
    from admin.tools.migrate import findings as rules
    from admin.tools.migrate.executor import UNANSWERED, change_voters, until, until_settled
    from admin.tools.migrate.guide import plan_text
    from quorum.clocks import monotonic_ms

    deadline_ms = monotonic_ms() + within_ms
    try:
        async with until(deadline_ms):
            await until_settled(cluster)
            look = await _look(cluster, into, rolled)
    except TimeoutError:
        return _ended(UNANSWERED)
    found = rules.findings(look)
    if rules.is_blocked(found):
        write(plan_text(look, found, command=command_line()))
        return Exit.NOT_FINISHED

    async def obstacle(id: int) -> "Finding | None":
        return rules.obstacle(await _look(cluster, into, rolled), id)

    step = await change_voters(
        cluster,
        look.wanted,
        obstacle=obstacle,
        confirmed=frozenset(rolled),
        deadline_ms=deadline_ms,
        say=_say_with_time,
    )
    return _ended(step)


def _ended(step: "Step") -> Exit:
    from admin.tools.migrate.state import Done

    if isinstance(step, Done):
        write(str(step))
        return Exit.DONE
    write(f"The time is up; it waits: {step}\nGive the command again to go on.")
    return Exit.NOT_FINISHED


def _say_with_time(text: str) -> None:
    from admin.units import show_time
    from quorum.clocks import wall_ms

    say(f"{show_time(wall_ms())} {text}")


def _settings_in(path: Path) -> Mapping[str, str]:
    """The settings in a file of Kafka's; an invalid one is a usage error."""
    from admin.properties import InvalidProperties, read_properties
    from admin.text_file import read_text

    try:
        return {each.name: each.value for each in read_properties(read_text(path, FILE_BYTES_MAX))}
    except InvalidProperties as error:
        raise BadInput(f"--kafka-settings: {path}:{error.line}: {error}") from None
    except ValueError as error:
        raise BadInput(f"--kafka-settings: {error}") from None


def _write_settings(look: "Look", folder: Path) -> list[str]:
    """Write a file for each of our controllers that has none; return what to do with them."""
    from admin.tools.certificates import write_new
    from admin.tools.local_plan import SETTINGS_FILE, as_properties
    from admin.tools.migrate.node_settings import lines_to_add, settings_of

    lines = []
    for id in sorted(look.wanted):
        home = folder / f"controller-{id}"
        path = home / SETTINGS_FILE
        if not path.exists():
            home.mkdir(parents=True, exist_ok=True)
            values = settings_of(look, id, str((home / "data").absolute()))
            text = as_properties(values, "migrate plan") + "".join(
                f"{line}\n" for line in lines_to_add(look)
            )
            # Passwords are to be added.
            write_new(path, text.encode())
        probe = look.probes.get(id)
        if probe is not None and probe.kind is not None:
            lines.append(f"Controller {id} runs already; settings for it: {path}")
        else:
            lines.append(f"Start controller {id}: {command_line()} start --config {path}")
    return lines
