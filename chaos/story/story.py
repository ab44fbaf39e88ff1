"""The story of a violated promise: at most 30 lines, and a diagram of the same events."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from chaos.story.promises import PROMISES
from chaos.story.recorder import CLIENT, FAULT, MARK, NOISE, Event

LINES_MAX: Final = 30
ABOUT_IT: Final = 2
"""Weight for an event of an epoch, or of records, that the violation names."""
IS_IT: Final = 4
"""Weight for an event of a partition that the violation names."""
OF_CLUSTERS: Final = "PL"
"""The rules about partitions and clients: what happens inside the quorum is seldom the cause."""
LAST: Final = 6
"""So many events before the violation are told, whatever they are."""

_SPAN: Final = re.compile(r"\[(\d+), (\d+)\)")
_END: Final = re.compile(r"\b(\d+)@(\d+)")
_EPOCH: Final = re.compile(r"\bepoch (\d+)")
_PARTITION: Final = re.compile(r"\b[a-z]\w*-\d+\b")
_OFFSET: Final = re.compile(r"\b(?:watermark|offset|below|committed is|commits|at) (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The events of one failing run that lead to its violation."""

    rule: str
    text: str
    """The violation."""
    replicas: tuple[int, ...]
    events: tuple[Event, ...]
    left_out: int
    """Events of the run that the story does not tell."""
    at_ms: int
    """The time of the violation."""

    @property
    def headline(self) -> str:
        """The violation in one sentence."""
        return f"{self.rule} is violated: {self.text.removeprefix(f'{self.rule}: ')}"

    def __str__(self) -> str:
        promise = PROMISES.get(self.rule)
        head = [self.headline]
        if promise is not None:
            name = f" ({promise.name})" if promise.name else ""
            head.append(f"the promise{name}: {promise.text}")
            head += [f"without it: {promise.otherwise}"] if promise.otherwise else []
        lines = [line_of(each) for each in self.events]
        end = f"{seconds(self.at_ms)}  {self.rule} VIOLATED"
        rest = f"({self.left_out} further events of the run are left out)"
        return "\n".join([*head, "", *lines, end, rest])


def line_of(event: Event) -> str:
    """One line of a story."""
    if event.to is not None:
        return f"{seconds(event.at_ms)}  {event.who} -> {event.to}: {event}"
    who = "" if event.who is None else f"{event.who} "
    return f"{seconds(event.at_ms)}  {who}{event}"


def seconds(at_ms: int) -> str:
    """A time of the run, in a column."""
    return f"{at_ms / 1_000:>8.3f} s"


def story_of(
    events: Sequence[Event], rule: str, text: str, replicas: Iterable[int], at_ms: int
) -> Story:
    """Choose the events of a run that lead to its violation."""
    is_of_quorum = rule[:1] not in OF_CLUSTERS
    joined = _joined(events if is_of_quorum else [*_above_the_quorum(events)])
    epochs = {int(each) for each in _EPOCH.findall(text)}
    epochs |= {int(epoch) for _, epoch in _END.findall(text)}
    spans = [(int(a), int(b)) for a, b in _SPAN.findall(text)]
    spans += [(int(at) - 1, int(at)) for at, _ in _END.findall(text)]
    spans += [(int(at) - 1, int(at) + 1) for at in _OFFSET.findall(text)]

    partitions = {*_PARTITION.findall(text)}

    def weight(place: int, event: Event) -> tuple[int, int]:
        about = ABOUT_IT * (event.epoch in epochs)
        is_of_these = any(event.start < end and start < event.end for start, end in spans)
        # Offsets of the violation are those of a partition, not of the quorum's log.
        is_of_these = is_of_these and (is_of_quorum or bool(event.partition))
        about += ABOUT_IT * is_of_these + IS_IT * (event.partition in partitions)
        about += ABOUT_IT * (event.kind == CLIENT and rule.startswith("L"))
        # A state machine is seldom wrong but after a snapshot.
        about += 2 * IS_IT * (rule.startswith("M") and "loads the snapshot" in event.text)
        is_other = bool(event.partition) and event.partition not in partitions and partitions
        if is_other and event.weight < FAULT:
            return 0, place
        is_noise = event.weight == NOISE and not is_of_these
        is_last = place >= len(joined) - LAST
        return (0 if is_noise else event.weight + about + 10 * is_last), place

    ranked = sorted(enumerate(joined), key=lambda each: weight(*each), reverse=True)
    worth = [place for place, event in ranked if weight(place, event)[0] > NOISE]
    chosen = sorted(worth[: LINES_MAX - 1])
    told = tuple(joined[place] for place in chosen)
    return Story(
        rule=rule,
        text=text,
        replicas=tuple(replicas),
        events=told,
        left_out=len(events) - len(told),
        at_ms=at_ms,
    )


def _above_the_quorum(events: Sequence[Event]) -> Iterator[Event]:
    """The events without the messages of the quorum, and with little of its elections."""
    for event in events:
        if event.to is not None:
            continue
        is_lead = "becomes leader" in event.text or "leads no more" in event.text
        is_inner = (event.epoch is not None and not is_lead) or event.kind == MARK
        yield replace(event, weight=NOISE) if is_inner else event


def _joined(events: Sequence[Event]) -> list[Event]:
    """Join what one replica does again and again, while it does nothing else of note."""
    joined: list[Event] = []
    last_of: dict[int | None, Event] = {}
    for event in events:
        if event.weight == NOISE:
            joined.append(event)
            continue
        before = last_of.get(event.who)
        if before is not None and _continues(event, before):
            before.end, before.text = event.end, event.text
            continue
        own = replace(event)
        last_of[event.who] = own
        joined.append(own)
    return joined


def _continues(event: Event, before: Event) -> bool:
    is_alike = bool(event.kind) and (event.kind, event.epoch) == (before.kind, before.epoch)
    return is_alike and before.end == event.start
