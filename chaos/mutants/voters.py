"""Faults in how the voters are changed."""

from typing import Final

from chaos.mutants.mutant import Mutant

VOTERS: Final = (
    Mutant(
        name="voters are changed while the last change is not committed",
        module="quorum.core.voter_changes",
        old="    if state.log.assignments.last_end > committed:\n",
        new="    if False:\n",
        caught_by=("R15",),
        directed="quorum_voters_one_at_a_time",
        seed=8,
    ),
    Mutant(
        name="voters are changed before a commit in the leader's own epoch",
        module="quorum.core.voter_changes",
        old="    if committed is None or committed <= leader.epoch_start:\n",
        new="    if committed is None:\n",
        caught_by=("R15", "R8"),
        directed="quorum_voters_new_epoch",
        seed=5,
    ),
    Mutant(
        name="a truncation does not take back the voters that it cuts",
        module="quorum.core.log_view",
        old="        self.assignments.truncate(end)\n",
        new="",
        caught_by=("R1", "R8", "R14", "R15", "R17", "R23", "liveness"),
        directed="quorum_voters_truncated",
        seed=12,
    ),
    Mutant(
        name="voters that were cut by a hair stay",
        module="quorum.core.assignments",
        old="        while self._entries and self._entries[-1][0] > end:\n",
        new="        while self._entries and self._entries[-1][0] > end + 1:\n",
        caught_by=("R1", "R8", "R14", "R15", "R17", "R21", "R23", "liveness"),
        directed="quorum_voters_truncated",
        seed=51,
    ),
    Mutant(
        name="other voters count only once they are committed",
        module="quorum.core.state",
        old="        assignment = self.log.assignments.last\n        self.voters",
        new="        assignment = self.log.assignments.at(self.high_watermark or Offset(0))\n"
        "        self.voters",
        caught_by=("R1", "R8", "R15", "R23", "liveness"),
        directed="quorum_voters_one_at_a_time",
        seed=1,
    ),
    Mutant(
        name="a leader that is removed counts itself",
        module="quorum.core.leading",
        old="    if state.is_voter:\n        # The leader counts itself",
        new="    if True:\n        # The leader counts itself",
        caught_by=("R8",),
        directed="quorum_voters_removed_leader",
        seed=39,
    ),
    Mutant(
        name="who votes no more still counts",
        module="quorum.core.serving",
        old="        self.voters, self._observers = {}, {}\n",
        new="        self.voters, self._observers = dict(self.voters), {}\n",
        caught_by=("R8",),
        directed="quorum_voters_replaced",
        seed=1,
    ),
    Mutant(
        name="another directory under a voter's id counts as the voter",
        module="quorum.core.serving",
        old="progress is not None and progress.directory in (None, replica.directory_id.int)",
        new="progress is not None",
        caught_by=("R8",),
        directed="quorum_voters_wiped_disk",
        seed=6,
    ),
    Mutant(
        name="all voters of the target come at once",
        module="quorum.core.changing",
        old="        if isinstance(found, Voter):\n            return found\n",
        new="        if isinstance(found, Voter):\n"
        "            current = current.with_(found)\n"
        "            object.__setattr__(situation.assignment, 'current', current)\n"
        "            if key is missing[-1]:\n"
        "                return found\n"
        "            continue\n",
        caught_by=("R14",),
        directed="quorum_voters_replaced",
        seed=1,
    ),
    Mutant(
        name="a voter counts for a new set until it has been silent for long",
        module="quorum.core.changing",
        old="    if len(current) - len(absent) < current.majority:\n",
        new="    if False:\n",
        caught_by=("R28",),
        directed="quorum_voters_just_died",
        seed=1,
    ),
    Mutant(
        name="who has fetched before voters are asked for counts for what is asked",
        module="quorum.core.voter_changes",
        old="        leader.changes.roll = None\n        leader.changes.look_soon(now_ms)\n",
        new="        leader.changes.look_soon(now_ms)\n",
        caught_by=("R28",),
        directed="quorum_voters_just_died",
        seed=29,
    ),
    Mutant(
        name="who has fetched for one set of voters counts for the next one",
        module="quorum.core.voter_changes",
        old="    leader.changes.wait, leader.changes.roll = Wait(Waiting.UNCOMMITTED), None\n",
        new="    leader.changes.wait = Wait(Waiting.UNCOMMITTED)\n",
        caught_by=("R28",),
        directed="quorum_voters_roll_each_step",
        seed=12,
    ),
    Mutant(
        name="who is removed counts its own vote",
        module="quorum.core.elections",
        old="return {state.me.id: True} if state.is_voter else {}",
        new="return {state.me.id: True}",
        caught_by=("R1", "R23"),
        directed="quorum_voters_removed_leader_loses_lead",
        seed=39,
    ),
    Mutant(
        name="another directory under a voter's id takes itself for the voter",
        module="quorum.core.state",
        old="self.is_voter = self.voters.has(self.me)",
        new="self.is_voter = self.me.id in self.voters",
        caught_by=("R17",),
        directed="quorum_voters_wiped_disk",
        seed=9,
    ),
    Mutant(
        name="a log that is cut at its start forgets the voters of before",
        module="quorum.core.assignments",
        old="            self._base = self._entries.pop(0)[1]\n",
        new="            self._entries.pop(0)\n",
        caught_by=("R21",),
        directed="quorum_snapshot_voters",
    ),
)
