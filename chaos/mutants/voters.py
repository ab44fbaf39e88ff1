"""Faults in changes of the voter set."""

from typing import Final

from chaos.mutants.mutant import Mutant

VOTERS: Final = (
    Mutant(
        name="voters are changed while the last change is not committed",
        module="quorum.core.reconfiguration",
        old="    if state.log.assignments.last_end > committed:\n",
        new="    if False:\n",
        caught_by=("R15",),
        directed="quorum_voters_one_at_a_time",
        seed=20,
    ),
    Mutant(
        name="voters are changed before a commit in the leader's own epoch",
        module="quorum.core.reconfiguration",
        old="committed = state.shown_high_watermark(leader)",
        new="committed = state.high_watermark",
        caught_by=("R15", "R8"),
        directed="quorum_voters_new_epoch",
        seed=5,
    ),
    Mutant(
        name="a truncation does not revert truncated voter sets",
        module="quorum.core.raft_log",
        old="        self.assignments.truncate(end)\n",
        new="",
        caught_by=("R1", "R8", "R14", "R15", "R17", "R23", "liveness"),
        directed="quorum_voters_truncated",
        seed=51,
    ),
    Mutant(
        name="a truncation keeps a voter set one offset after its end",
        module="quorum.core.voter_set",
        old="        while self._entries and self._entries[-1][0] > end:\n",
        new="        while self._entries and self._entries[-1][0] > end + 1:\n",
        caught_by=("R1", "R8", "R14", "R15", "R17", "R21", "R23", "liveness"),
        directed="quorum_voters_truncated",
        seed=34,
    ),
    Mutant(
        name="a new voter set takes effect only when it is committed",
        module="quorum.core.state",
        old="        assignment = self.log.assignments.last\n        self.voters",
        new="        assignment = self.log.assignments.at(self.high_watermark or Offset(0))\n"
        "        self.voters",
        caught_by=("R1", "R8", "R15", "R23", "liveness"),
        directed="quorum_voters_one_at_a_time",
        seed=1,
    ),
    Mutant(
        name="a removed leader counts itself for commits",
        module="quorum.core.leader",
        old="    if state.is_voter:\n        # The leader counts itself",
        new="    if True:\n        # The leader counts itself",
        caught_by=("R8",),
        directed="quorum_voters_removed_leader",
        seed=49,
    ),
    Mutant(
        name="a former voter still counts for commits",
        module="quorum.core.replica_progress",
        old="        self.voters, self._observers = {}, {}\n",
        new="        self.voters, self._observers = dict(self.voters), {}\n",
        caught_by=("R8",),
        directed="quorum_voters_replaced",
        seed=63,
    ),
    Mutant(
        name="a leader ignores the higher epoch of a removed voter",
        module="quorum.core.elections",
        old="    if epoch <= state.election.epoch or not isinstance(state.role, Leader):\n",
        new="    if True:\n",
        caught_by=("liveness",),
        directed="quorum_voters_removed_ahead",
        seed=87,
    ),
    Mutant(
        name="a leader ignores the higher epoch in the pre-vote of a removed voter",
        module="quorum.core.elections",
        old="        step_down_and_campaign(state, request.candidate, request.epoch, now_ms)\n",
        new="",
        caught_by=("liveness",),
        directed="quorum_voters_removed_ahead",
        seed=87,
    ),
    Mutant(
        name="a leader that learns of a higher epoch skips the pre-vote",
        module="quorum.core.elections",
        old="        prospect(state, Cause.STEPPED_DOWN, now_ms)\n",
        new="        campaign(state, Cause.SUCCESSION, now_ms)\n",
        caught_by=("R25",),
        directed="quorum_zombie_outgrown",
    ),
    Mutant(
        name="another directory under a voter's id counts as the voter",
        module="quorum.core.replica_progress",
        old="progress is not None and progress.directory in (None, replica.directory_id.int)",
        new="progress is not None",
        caught_by=("R8",),
        directed="quorum_voters_wiped_disk",
        seed=6,
    ),
    Mutant(
        name="all voters of the target are added at once",
        module="quorum.core.reconfiguration",
        old="        if isinstance(found, Voter):\n            return found\n",
        new="        if isinstance(found, Voter):\n"
        "            current = current.with_(found)\n"
        "            object.__setattr__(view.assignment, 'current', current)\n"
        "            if key is missing[-1]:\n"
        "                return found\n"
        "            continue\n",
        caught_by=("R14",),
        directed="quorum_voters_replaced",
        seed=29,
    ),
    Mutant(
        name="a voter counts as live for a new set although it has not fetched since",
        module="quorum.core.reconfiguration",
        old="(WaitReason.NOT_HEARD, view.is_present)",
        new="(WaitReason.NOT_HEARD, view.is_live)",
        caught_by=("R28",),
        directed="quorum_voters_just_died",
        seed=1,
    ),
    Mutant(
        name="a fetch before the request counts as one after it",
        module="quorum.core.reconfiguration",
        old=(
            "        leader.changes.liveness_round = None\n"
            "        leader.changes.check_soon(now_ms)\n"
        ),
        new="        leader.changes.check_soon(now_ms)\n",
        caught_by=("R28",),
        directed="quorum_voters_just_died",
        seed=29,
    ),
    Mutant(
        name="a fetch for one voter set counts for the next one",
        module="quorum.core.reconfiguration",
        old=(
            "    leader.changes.wait, leader.changes.liveness_round = "
            "Wait(WaitReason.UNCOMMITTED), None\n"
        ),
        new="    leader.changes.wait = Wait(WaitReason.UNCOMMITTED)\n",
        caught_by=("R28",),
        directed="quorum_voters_roll_each_step",
        seed=131,
    ),
    Mutant(
        name="a removed voter counts its own vote",
        module="quorum.core.elections",
        old="    if state.is_voter:\n        # A node that stands",
        new="    if True:\n        # A node that stands",
        caught_by=("R1", "R23"),
        directed="quorum_voters_removed_leader_loses_lead",
        seed=78,
    ),
    Mutant(
        name="another directory under a voter's id acts as the voter",
        module="quorum.core.state",
        old="self.is_voter = self.voters.has(self.me)",
        new="self.is_voter = self.me.id in self.voters",
        caught_by=("R17",),
        directed="quorum_voters_wiped_disk",
        seed=9,
    ),
    Mutant(
        name="a cut at the start of the log loses the earlier voter set",
        module="quorum.core.voter_set",
        old="            self._base = self._entries.pop(0)[1]\n",
        new="            self._entries.pop(0)\n",
        caught_by=("R21",),
        directed="quorum_snapshot_voters",
        seed=1,
    ),
)
