"""The findings of a plan: what stands in the way, and what to know. Pure functions."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from admin.setting_kinds import PRINCIPALS
from admin.tools.migrate.node_settings import listener_of, taken_over
from admin.tools.migrate.planner import about, named, spare, unprepared
from admin.tools.migrate.state import Finding, Kind, Look, Probe, Wait, Weight
from admin.units import show_duration
from quorum.transport.address import Address
from statemachine.features.features import KRAFT_VERSION, RELEASES
from statemachine.vocabulary import LEVEL_KRAFT_VERSION, METADATA_VERSION

CLOCK_NOTE_MS: Final = 1_000
"""A difference of clocks from which on the plan speaks of it."""
LEVEL_VOTERS_UPGRADABLE: Final = 26
"""The first level of Kafka 4.1, from which on kafka-features turns static voters into dynamic
ones (KAFKA-16538)."""
LOOPBACK: Final = ("127.", "localhost", "::1")


def release_of(levels: Mapping[str, tuple[int, int]]) -> str:
    """Return the release of a node, by the highest metadata.version that it supports."""
    if METADATA_VERSION not in levels:
        return "unknown"
    highest = levels[METADATA_VERSION][1]
    if highest > max(RELEASES):
        return f"newer than {_short(RELEASES[max(RELEASES)])}"
    return _short(RELEASES[highest]) if highest in RELEASES else "older than 3.7"


def _short(name: str) -> str:
    return name.partition("-")[0]


def findings(look: Look) -> list[Finding]:
    """Return everything that stands in the way, or that the operator should know."""
    found = [
        *_of_voter_set(look),
        *_of_contents(look),
        *_of_levels(look),
        *_of_quorum(look),
        *_of_ids(look),
        *_of_addresses(look),
        *_of_brokers(look),
        *_of_security(look),
        *_of_settings(look),
        *(
            each
            for id in sorted(look.wanted)
            if not _is_silent(look.probes.get(id))
            for each in _of_untold(look, id)
        ),
        *_of_moves(look),
        *_of_clock(look),
        *_of_disks(look),
    ]
    return sorted(found, key=lambda each: each.weight is Weight.NOTE)


def obstacle(look: Look, id: int) -> Finding | None:
    """Return what keeps the controller `id` from getting a vote now, or None.

    It may have been started since the plan, and so may the others that are to vote.
    """
    found = (
        *_of_ids(look),
        *_of_wanted(look),
        *_of_silence(look, id),
        *_of_levels(look),
        *_of_settings(look),
        *_of_untold(look, id),
    )
    return next((each for each in found if each.weight is Weight.BLOCKS), None)


def _of_silence(look: Look, id: int) -> Iterator[Finding]:
    """One that gets a vote has answered: otherwise nothing is known about it."""
    probe = look.probes.get(id)
    if _is_silent(probe):
        why = f" ({probe.problem})" if probe is not None and probe.problem else ""
        yield _blocks(
            f"controller {id} follows the log, but does not answer here{why}: whether it may vote "
            "is not known",
            "Run this command where it is reached, with credentials that it accepts",
        )


def is_blocked(found: list[Finding]) -> bool:
    """Return whether a migration must not begin."""
    return any(each.weight is Weight.BLOCKS for each in found)


def _blocks(sentence: str, remedy: str) -> Finding:
    return Finding(weight=Weight.BLOCKS, sentence=sentence, remedy=remedy)


def _note(sentence: str, remedy: str) -> Finding:
    return Finding(weight=Weight.NOTE, sentence=sentence, remedy=remedy)


def _of_voter_set(look: Look) -> Iterator[Finding]:
    """Only voters that the log names can be changed while the quorum runs (KIP-853)."""
    level = look.contents.levels.get(METADATA_VERSION, 0)
    if look.contents.levels.get(KRAFT_VERSION, 0) >= 1:
        return
    static = "the voters are static: kraft.version is 0, and the log does not name them"
    if level < LEVEL_KRAFT_VERSION:
        yield _blocks(
            f"{static}; metadata.version is {level}, and kraft.version 1 needs "
            f"{LEVEL_KRAFT_VERSION} (3.9-IV0)",
            "Upgrade all brokers and controllers to Kafka 4.1 or newer, then metadata.version: "
            "kafka-features --bootstrap-server BROKER upgrade --release-version 4.1",
        )
        return
    kafkas = [look.probes[each.id] for each in look.quorum.of(Kind.KAFKA) if each.id in look.probes]
    old = [each for each in kafkas if each.kind is not None and not _upgrades_voters(each)]
    if old:
        places = ", ".join(f"{each.address} is {release_of(each.levels)}" for each in old)
        yield _blocks(
            f"{static}; Kafka raises kraft.version from release 4.1 on, and {places}",
            "Upgrade Kafka's controllers to 4.1 or newer, one by one, and plan again; or stop them "
            "all and take over their folders: metaquorum adopt",
        )
        return
    servers = ",".join(str(each.address) for each in kafkas) or "CONTROLLER"
    yield _blocks(
        static,
        f"Raise it while the cluster runs: kafka-features --bootstrap-controller {servers} upgrade "
        "--feature kraft.version=1",
    )


def _upgrades_voters(probe: Probe) -> bool:
    return probe.levels.get(METADATA_VERSION, (0, 0))[1] >= LEVEL_VOTERS_UPGRADABLE


def _of_contents(look: Look) -> Iterator[Finding]:
    if look.contents.problem is not None:
        yield _blocks(
            f"the metadata cannot be looked at: {look.contents.problem}",
            "Give a --command-config whose principal has CLUSTER_ACTION on the cluster; else see "
            "the log of the leader",
        )
    for each in look.contents.unsupported:
        yield _blocks(
            each,
            "Use a release of metaquorum that knows it; Kafka lowers a feature only where "
            "kafka-features downgrade allows it, and never metadata.version 30 to 29",
        )


def _of_levels(look: Look) -> Iterator[Finding]:
    """Every controller that is to vote supports every level in force."""
    for id in sorted(look.wanted):
        probe = look.probes.get(id)
        # One that does not answer gets no vote: see `_of_silence`.
        if probe is None or probe.kind is not look.into:
            continue
        for name, level in sorted(look.contents.levels.items()):
            if level == 0:
                continue
            lowest, highest = probe.levels.get(name, (0, 0))
            if not lowest <= level <= highest:
                yield _blocks(
                    f"{name} is at level {level}, and controller {id} supports {lowest} to "
                    f"{highest}",
                    f"Run a newer release of {look.into} as controller {id}",
                )


def _of_quorum(look: Look) -> Iterator[Finding]:
    quorum = look.quorum
    if quorum.leader is None:
        yield _blocks("no controller leads", "Start Kafka's controllers, a majority at least")
        return
    away = [each for each in quorum.voters if not each.has_caught_up]
    if away:
        begins = named(away, "votes, but does not", "vote, but do not") + " follow the log"
        if spare(quorum.voters) < 0:
            yield _blocks(begins, "Start it again: the voters have no live majority")
        else:
            yield _note(
                f"{begins}, so that fewer voters may be lost than there should",
                "Start it again before the migration; else it is removed first",
            )
    strangers = [
        each for each in quorum.voters if each.id not in look.wanted and each.kind is look.into
    ]
    if strangers:
        option = "--controllers" if look.into is Kind.OURS else "--from"
        yield _blocks(
            named(strangers, "votes and is one", "vote and are")
            + f" of {look.into}, but {option} does not name "
            + ("it" if len(strangers) == 1 else "them"),
            f"Name all controllers that are to vote in {option}",
        )
    leaving = [each for each in quorum.voters if each.id not in look.wanted]
    if leaving and len(look.wanted) < len(quorum.voters) and not _is_under_way(look):
        yield _blocks(
            f"{len(look.wanted)} controllers are to take the place of {len(quorum.voters)}: fewer "
            "of them could be lost than before",
            f"Name at least {len(quorum.voters)} controllers",
        )
    if len(look.wanted) % 2 == 0:
        yield _note(
            f"{len(look.wanted)} controllers are to vote: an even number survives no more losses "
            "than one less",
            "Three or five are usual",
        )


def _is_under_way(look: Look) -> bool:
    return any(each.member.is_voter for each in look.quorum.of(look.into))


def _of_ids(look: Look) -> Iterator[Finding]:
    brokers = {each.id for each in look.contents.brokers}
    combined = [each.id for each in look.quorum.of(Kind.KAFKA) if each.id in brokers]
    if combined:
        yield _blocks(
            about("node", combined, "is", "are each") + " a broker and a controller in one process",
            "Move the controllers to nodes of their own with Kafka first: its manual, "
            "process.roles",
        )
    if look.into is Kind.OURS:
        taken = brokers | {each.id for each in look.quorum.of(Kind.KAFKA)}
        for id in sorted(look.wanted.keys() & taken):
            yield _blocks(
                f"id {id} of --controllers belongs to a node of Kafka's already",
                "Choose ids that no broker and no controller of the cluster has; name one of ours "
                "by the address that it has registered",
            )


def _of_addresses(look: Look) -> Iterator[Finding]:
    yield from _of_wanted(look)
    for each in look.quorum.voters:
        probe = look.probes.get(each.id)
        # A dead one is removed first; the note about it is another one.
        is_leaving = each.id not in look.wanted and each.has_caught_up
        if probe is not None and probe.problem is not None and is_leaving:
            yield _blocks(
                f"voter {each.id} cannot be reached from here at {probe.address}, the address that "
                f"the quorum has of it: {probe.problem}",
                "Run this command where the new controllers are to run: they must reach it there",
            )
    # Once Kafka's controllers have no vote they may be gone.
    if look.silent_kafkas and any(each.kind is Kind.KAFKA for each in look.quorum.voters):
        places = ", ".join(f"{each.address} ({each.problem})" for each in look.silent_kafkas)
        yield _note(
            f"nobody answers at {places} of --from, and no controller is registered there",
            "Correct the address: --from names all of Kafka's controllers",
        )
    elsewhere = [each.address for each in look.quorum.voters if each.address is not None]
    if any(not _is_loopback(each) for each in elsewhere):
        for id, address in sorted(look.wanted.items()):
            if _is_loopback(address):
                yield _blocks(
                    f"controller {id} is to listen at {address}, which other machines do not reach",
                    "Give it an address that brokers and controllers on other machines reach",
                )


def _of_wanted(look: Look) -> Iterator[Finding]:
    silent = [id for id in sorted(look.wanted) if _is_silent(look.probes.get(id))]
    elsewhere = {id: address for id in silent if (address := _lives_at(look, id)) is not None}
    for id, address in elsewhere.items():
        yield _blocks(
            f"controller {id} runs and is registered at {address}, and at {look.wanted[id]} nobody "
            "answers",
            "Correct the address in --controllers",
        )
    silent = [id for id in silent if id not in elsewhere]
    if silent:
        why = "; ".join(
            filter(None, (look.probes[id].problem for id in silent if id in look.probes))
        )
        yield _note(
            about("controller", silent, "does", "do")
            + " not answer yet"
            + (f" ({why})" if why else ""),
            "Start it: it observes the quorum by itself",
        )
    for id, address in sorted(look.wanted.items()):
        probe = look.probes.get(id)
        if probe is None or probe.kind is None:
            continue
        if probe.kind is not look.into:
            yield _blocks(
                f"the node at {address} is one of {probe.kind}, not of {look.into}",
                "Correct the address",
            )
        elif probe.node_id is not None and probe.node_id != id:
            yield _blocks(
                f"the node at {address} is controller {probe.node_id}, not {id}",
                "Correct the id or the address in --controllers",
            )
        elif probe.cluster_id not in (None, look.quorum.cluster_id):
            yield _blocks(
                f"controller {id} belongs to cluster {probe.cluster_id}, not to "
                f"{look.quorum.cluster_id}",
                "Stop it, and start it with a new log.dir and the settings that the plan prints",
            )


def _lives_at(look: Look, id: int) -> Address | None:
    """Return where one of ours that follows the log is registered, if it is to be elsewhere."""
    known = look.quorum.get(id)
    if known is None or known.kind is not look.into or not known.member.is_reachable:
        return None
    return known.address if known.address != look.wanted[id] else None


def _is_silent(probe: Probe | None) -> bool:
    return probe is None or probe.kind is None


def _is_loopback(address: Address) -> bool:
    return address.host.startswith(LOOPBACK)


def is_misnamed(look: Look) -> bool:
    """Return whether an id or an address of --controllers is wrong: none is to be copied then."""
    return is_blocked([*_of_ids(look), *_of_wanted(look)])


def stale_brokers(look: Look) -> Wait | None:
    """Return the wait for brokers that need a new line, or None; also while that is not known."""
    return None if is_misnamed(look) else unprepared(look.quorum, look.wanted, look.settings)


def _of_brokers(look: Look) -> Iterator[Finding]:
    stale = stale_brokers(look)
    if stale is not None:
        yield _note(f"{stale.reason}: the first step waits for that", stale.remedy)
    fenced = [each.id for each in look.contents.brokers if each.fenced]
    if fenced:
        yield _note(
            about("broker", fenced, "is fenced", "are fenced"),
            "Start it, or unregister it: every registered broker is waited for",
        )


def _of_security(look: Look) -> Iterator[Finding]:
    contents = look.contents
    if look.into is Kind.KAFKA:
        return
    if contents.acls:
        yield _note(
            f"{contents.acls} ACLs are taken over",
            "Give our controllers authorizer.class.name and super.users as Kafka's have them",
        )
    if contents.scram_credentials:
        yield _note(
            f"{contents.scram_credentials} SCRAM credentials are taken over",
            "Nothing needs to be done: they are in the log",
        )
    if contents.delegation_tokens:
        yield _note(
            f"{contents.delegation_tokens} delegation tokens are taken over",
            "Give our controllers the delegation.token.secret.key of Kafka's: without it they "
            "cannot renew a token",
        )


def _of_settings(look: Look) -> Iterator[Finding]:
    """Our controllers decide as Kafka's do only if they have the same authorizer and keys."""
    if look.into is Kind.KAFKA:
        return
    if look.kafka_settings_problem is not None:
        yield _note(
            f"Kafka's controllers do not tell their settings: {look.kafka_settings_problem}",
            "Give a --command-config whose principal has DESCRIBE_CONFIGS on the cluster, or take "
            "over by hand what they have of TLS, SASL and the authorizer",
        )
    found = taken_over(look.kafka_settings, listener_of(look))
    for name, reason in found.unsupported.items():
        sentence = f"our controllers cannot take over a setting of Kafka's: {reason}"
        if name in (*_DECISIVE, "sasl.mechanism.controller.protocol"):
            yield _blocks(
                sentence, "Change it at Kafka's controllers to what both know, and plan again"
            )
        else:
            yield _note(sentence, f"Set {name} in the files of ours to what they know")
    if found.to_add and look.wanted.keys() - look.our_settings.keys():
        yield _note(
            f"Kafka's controllers have {', '.join(found.to_add)}, and do not tell the value, or it "
            "is for one machine",
            f"Add {'them' if len(found.to_add) > 1 else 'it'} to the settings of ours: "
            "docs/migration.md, Secured clusters",
        )
    for id, settings in sorted(look.our_settings.items()):
        missing = [name for name in _decisive(look) if not _is_set(settings, _DECISIVE[name])]
        if missing:
            yield _blocks(
                f"controller {id} has no {', '.join(missing)}, and Kafka's controllers have: it "
                "would not decide as they do who may do what",
                "Add it to its settings as Kafka's controllers have it, and restart it",
            )
    yield from _of_super_users(look)


def _of_untold(look: Look, id: int) -> Iterator[Finding]:
    """One of ours that does not tell its settings may lack a decisive one."""
    decisive = _decisive(look)
    if look.into is Kind.OURS and decisive and id not in look.our_settings:
        why = look.our_settings_problems.get(id)
        yield _blocks(
            f"controller {id} does not tell its settings{f' ({why})' if why else ''}, and Kafka's "
            f"controllers have {', '.join(decisive)}: it may not decide as they do who may do what",
            "Give a --command-config whose principal it accepts, and that has ALTER on the cluster",
        )


def _decisive(look: Look) -> list[str]:
    """The decisive settings that Kafka's controllers have."""
    return [name for name, names in _DECISIVE.items() if _is_set(look.kafka_settings, names)]


def _of_super_users(look: Look) -> Iterator[Finding]:
    """A broker of Kafka's that our leader refuses ends itself."""
    kafkas = taken_over(look.kafka_settings, listener_of(look)).values.get("super.users")
    for id, settings in sorted(look.our_settings.items()):
        ours = settings.get("super.users")
        if not ours:
            continue
        if kafkas is None:
            yield _note(
                f"the super users of controller {id} are {ours}",
                "See that all controllers and brokers, of Kafka's and ours, are among them, or "
                "give --kafka-settings: a broker of Kafka's that is refused ends itself",
            )
            continue
        missing = PRINCIPALS.parse(kafkas) - PRINCIPALS.parse(ours)
        if missing:
            yield _blocks(
                f"controller {id} lacks the super users {';'.join(sorted(missing))} of Kafka's "
                "controllers: a broker of Kafka's that is refused ends itself",
                "Add them to its settings, and restart it",
            )


_DECISIVE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "authorizer.class.name": ("authorizer.class.name",),
        "super.users": ("super.users",),
        "delegation.token.secret.key": (
            "delegation.token.secret.key",
            "delegation.token.master.key",
        ),
    }
)
"""The settings without which one of our controllers decides otherwise than Kafka's, with all their
names."""


def _is_set(settings: Mapping[str, str | None], names: tuple[str, ...]) -> bool:
    """True if one of these names has a value, a hidden one included."""
    return any(settings.get(name, "") != "" for name in names)


def _of_moves(look: Look) -> Iterator[Finding]:
    if look.into is Kind.KAFKA and look.running_moves:
        yield _blocks(
            about("move", look.running_moves, "is", "are")
            + " under way, and Kafka's controllers do not know the steps that are left",
            "Wait for it, or cancel it: metaquorum moves list --running",
        )
    elif look.contents.reassigning:
        yield _note(
            f"{look.contents.reassigning} partitions are being reassigned",
            "Nothing needs to be done: the new leader goes on with them",
        )


def _of_clock(look: Look) -> Iterator[Finding]:
    ahead_ms = look.clock_ahead_ms
    if ahead_ms is not None and abs(ahead_ms) >= CLOCK_NOTE_MS:
        which = "ahead of" if ahead_ms > 0 else "behind"
        yield _note(
            f"the clock of the leader is {show_duration(abs(ahead_ms))} {which} the one here",
            "Synchronize the clocks: delegation tokens end by that of the leader, and timestamps "
            "of the log come from it",
        )


def _of_disks(look: Look) -> Iterator[Finding]:
    for id, probe in sorted(look.probes.items()):
        if probe.has_full_disk:
            yield _blocks(
                f"controller {id} has no room on its disk",
                f"Make room: the metadata takes {look.contents.log_bytes} bytes, and grows by its "
                "log until metadata.max.retention.bytes",
            )
