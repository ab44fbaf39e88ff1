"""The promises that the invariants check, by rule: a name, the promise, and why it matters.

The tables of docs/chaos.md have the same sentences.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Promise(NamedTuple):
    """One promise."""

    name: str
    """The field's name for it, or a short one."""
    text: str
    """The promise, as in docs/chaos.md."""
    otherwise: str = ""
    """The consequence if it does not hold."""


PROMISES: Final[Mapping[str, Promise]] = MappingProxyType(
    {
        "R1": Promise(
            "Election Safety",
            "An epoch has one leader, elected by a majority; no replica names another one; every "
            "record belongs to an epoch with a leader.",
            "Two leaders of one epoch could each commit a record at the same offset: one "
            "acknowledged change is lost.",
        ),
        "R2": Promise(
            "one vote per epoch",
            "A voter votes once per epoch, across restarts.",
            "A voter that votes twice helps two candidates to a majority in one epoch.",
        ),
        "R3": Promise(
            "persist before you speak",
            "The epoch and vote in a message are durable before it leaves.",
            "A vote or epoch that others rely on is forgotten by a crash, and given again to "
            "another candidate.",
        ),
        "R4": Promise(
            "epochs only rise",
            "Epochs never fall.",
            "A node that goes back to an earlier epoch follows, or votes for, a leader that was "
            "replaced.",
        ),
        "R5": Promise(
            "Log Matching",
            "The same offset and epoch is the same batch with the same prefix, on every disk and "
            "on the wire.",
            "Two replicas hold different records at one offset and epoch, and nothing will ever "
            "notice.",
        ),
        "R6": Promise(
            "committed is for ever",
            "Committed records never change.",
            "A change that was acknowledged disappears, or is replaced by another one.",
        ),
        "R7": Promise(
            "Leader Completeness",
            "A new leader's log holds everything committed before.",
            "The new leader's log wins: committed records that it lacks are truncated everywhere.",
        ),
        "R8": Promise(
            "a majority holds what is committed",
            "No replica takes for committed, shows, or sends to an observer what is not durable "
            "on a majority; the checker counts this itself.",
            "A record is acknowledged, or shown, that the loss of a minority can take back.",
        ),
        "R9": Promise(
            "the high watermark only rises",
            "A high watermark never falls, and is shown only after a commit in the leader's own "
            "epoch.",
            "A reader sees a record and later does not; or a record of an earlier epoch is taken "
            "for committed and overwritten (Raft §5.4.2).",
        ),
        "R10": Promise(
            "recovery keeps what is committed",
            "No truncation or recovery cuts committed records.",
            "A restart or a truncation removes acknowledged records from a disk that counted for "
            "them.",
        ),
        "R11": Promise(
            "Leader Append-Only",
            "A leader never cuts its own records, and never leads an epoch twice.",
            "A leader that rewrites its own log, or leads one epoch twice, writes two records at "
            "one offset and epoch.",
        ),
        "R12": Promise(
            "an acknowledged record is durable",
            "A fetch acknowledges only durable records. A leader names a voter that fetches from "
            "below its last acknowledgement (a durability regression), also one that it sends to "
            "a snapshot or to the end of a common log.",
            "The leader counts a replica that does not have the record on its disk.",
        ),
        "R13": Promise(
            "one cluster only",
            "Nothing from a node of another cluster is believed or answered, in gossip or in "
            "calls of replicas.",
            "A node of another cluster changes epochs, votes or records of this one.",
        ),
        "R14": Promise(
            "majorities intersect",
            "Consecutive voter sets of a log differ in one voter, so that their majorities "
            "intersect.",
            "Two voter sets have majorities without a common voter: each elects a leader.",
        ),
        "R15": Promise(
            "one voter change at a time",
            "Voter sets change one at a time, each committed before the next, after a commit in "
            "the leader's own epoch.",
            "Two changes under way at once leave majorities that do not intersect.",
        ),
        "R16": Promise(
            "the right voter set counts",
            "Votes and disks count by the voter set of the log in question.",
            "A vote or a disk is counted that has no say in this log.",
        ),
        "R17": Promise(
            "candidates ask their own voters",
            "A candidate asks the voters of its own log, up to the log end that it states, and no "
            "voter of a set that was cut from it.",
            "A candidate is elected by the voters of another log.",
        ),
        "R18": Promise(
            "a requested change ends",
            "After healing, a requested voter set is reached, and a replica whose disk was lost "
            "votes again.",
            "A requested voter never votes, although everything is healed.",
        ),
        "R19": Promise(
            "one founding",
            "A log begins with its founders and the cluster id, and is founded once.",
            "A second cluster is founded under the name of the first, or the log has no identity.",
        ),
        "R20": Promise(
            "State Machine Safety",
            "The state of a state machine equals a fold of the committed bytes; a snapshot says "
            "the same, whether it was taken, received or loaded.",
            "Two replicas that have applied the same records are in different states.",
        ),
        "R21": Promise(
            "a snapshot stands for its prefix",
            "A snapshot ends at a committed batch boundary outside any transaction, with the "
            "epoch and voters of that offset; it is complete on disk before it has its name. A "
            "log is cut only behind two durable snapshots, and the older one replaces a damaged "
            "one.",
            "A replica that recovers from it, or receives it, misses records or has others.",
        ),
        "R22": Promise(
            "addresses are of the last boot",
            "What is said of a node never goes back to an earlier boot; one boot has one address, "
            "and none is of a far future. Each boot timestamp of a node is later than all before, "
            "as far as its disk or its clock can tell. After healing every node's address is "
            "known to all.",
            "Nodes are searched where they no longer are.",
        ),
        "R23": Promise(
            "no error without a cause",
            "No error without a cause; a healthy disk is never refused. At the end every node is "
            "killed and started once more, and every remaining file is explained.",
            "A healthy node ends or refuses to start.",
        ),
        "R24": Promise(
            "bounded queues",
            "Every queue of a node, and what it remembers of its callers, is within its bounds, "
            "counted from outside.",
            "Callers can fill the memory of a node.",
        ),
        "R25": Promise(
            "a working leader stays",
            "A working leader is not deposed: no replica grants a pre-vote while the leader "
            "answers its fetches, and no candidate stands without the pre-votes of a majority, "
            "unless the leader named it.",
            "The cluster elects for no reason, and stops serving meanwhile.",
        ),
        "R26": Promise(
            "a leader without a majority resigns",
            "A leader from which no majority has fetched for 1.5 fetch timeouts stops leading; "
            "one whose timer is late may lead until it notices.",
            "Clients keep waiting at a leader that can commit nothing.",
        ),
        "R27": Promise(
            "append times are true",
            "The index of append times of a segment describes only durable records: entries rise, "
            "end at batch boundaries, and name the epoch and a time that the machine has shown. "
            "It is complete once its segment is, unless a fault has hit it; not checked after a "
            "failed fsync of it.",
            "Replication lag is reported for records that are elsewhere or were never written.",
        ),
        "R28": Promise(
            "new voters are alive",
            "A voter set is appended only if a majority of it has fetched since the request, and "
            "since the previous set was appended.",
            "The quorum adopts voters of which no majority answers, and stops.",
        ),
        "R29": Promise(
            "a transfer loses nothing",
            "A requested transfer gives leadership away only when everything proposed is "
            "committed.",
            "Proposals that the old leader accepted are neither committed nor refused.",
        ),
        "R30": Promise(
            "noise is no message",
            "Bytes that are no message produce no message: the connection or the call ends, and "
            "nothing else is affected.",
            "Damaged bytes are taken for a request or an answer.",
        ),
        "R31": Promise(
            "epochs rise by one",
            "An election adds one to the highest epoch of all disks. What else is added comes "
            "from strangers, and each process believes 2^20 of that, and one more in 100 ms.",
            "Somebody uses up all epochs, after which nobody can be elected.",
        ),
        "R32": Promise(
            "a stranger brings about no election",
            "When all is healed, a hostile node brings about no election in eight seconds, and "
            "the quorum commits.",
            "Anybody who reaches the port stops the cluster.",
        ),
        "R33": Promise(
            "no rights, no answers",
            "With authentication, no request between nodes of a user without rights is served, "
            "and each is answered.",
            "A user without rights changes or reads what is between nodes.",
        ),
        "R34": Promise(
            "a faulty leader is left",
            "A follower whose leader sends nothing but what must be refused leaves it within the "
            "fetch time-out and its random part, unless its disk is full or it lets another voter "
            "stand; until then it fetches no faster than after the pauses of a failed fetch.",
            "Followers ask a leader for ever that sends nothing of use.",
        ),
        "liveness": Promise(
            "the cluster goes on",
            "After healing: a leader, new commits, equal logs; no endless exchange of messages.",
            "Everything is healed, and still nothing, or not everything, is served.",
        ),
        "P1": Promise(
            "",
            "ISR, ELR, adding and removing replicas are subsets of the replicas; the leader is in "
            "the ISR; ISR and ELR are disjoint, and the ELR is used only below min ISR.",
        ),
        "P2": Promise(
            "",
            "No replica is both adding and removing, and only replicas of the target are added; a "
            "completed move leaves no trace.",
        ),
        "P3": Promise(
            "",
            "Each change adds one to the partition epoch. The leader epoch rises with a change of "
            "leader and with each end of a step, a cancel included, and at no other time.",
        ),
        "P4": Promise(
            "",
            "A growing partition appends its adding replicas in the order of the target and keeps "
            "its leader and ISR. Before a step ends, only adding replicas outside the ISR may "
            "leave.",
        ),
        "P5": Promise(
            "",
            "A step completes exactly when the completion rule holds, by the end of the decision "
            "that makes it hold.",
        ),
        "P6": Promise(
            "",
            "The leader afterwards is the leader before, or the first in-sync replica of the "
            "target; the last step leaves the target in its order.",
        ),
        "P7": Promise(
            "",
            "A step that only removes or reorders completes at once where the rule holds.",
        ),
        "P8": Promise(
            "",
            "No end of a step leaves fewer in-sync replicas than min ISR, unless unclean "
            "elections are allowed.",
        ),
        "P9": Promise(
            "",
            "An ISR grows only under a leader, or by an election, and then to the elected broker "
            "alone. That one comes from the ISR or the ELR; where unclean elections are not "
            "allowed, only the last known leader may come from elsewhere, and only once no "
            "replica is eligible.",
        ),
        "P10": Promise(
            "",
            "A broker that joins an ISR is registered, not fenced, not shutting down, and was "
            "proposed by the leader with its current broker epoch, or elected.",
        ),
        "P11": Promise(
            "",
            "A broker epoch is the offset of its registration record and rises; an incarnation "
            "keeps its epoch.",
        ),
        "P12": Promise(
            "",
            "A broker that is fenced, gone or shutting down leads nothing and is in no ISR, "
            "except as the last member of the ISR of a partition without a leader.",
        ),
        "P13": Promise(
            "",
            "A move that ends without completing restores the replicas before the step, in their "
            "order, however often the step was redirected and whether or not one is under way "
            "then; a partition that had a leader still has one.",
        ),
        "P14": Promise(
            "",
            "A completed move leaves exactly its target. Replicas that were being added for an "
            "old target and are not in sync leave at once. Without limits, each replica is in the "
            "target, is being removed, or was there before. The original replicas are those that "
            "a cancel would have restored when the target was set; a cancel leaves none that only "
            "an older target had.",
        ),
        "P15": Promise(
            "",
            "No step begins beyond the limits of partitions under way, of adding replicas, and of "
            "leader movements.",
        ),
        "P16": Promise(
            "",
            "Without limits, a step does everything that is left; with limits it is the step that "
            "the rules plan, computed a second time.",
        ),
        "P17": Promise(
            "",
            "Partitions move only where a client asked, and a step is cancelled only if a client "
            "asked; a refused request leaves no record.",
        ),
        "P18": Promise(
            "no acknowledged record is lost",
            "No acknowledged record is lost or moved, and none is stored twice, however often it "
            "was sent.",
            "A producer has the answer that its record is stored, and no consumer gets it, or "
            "gets it twice.",
        ),
        "P19": Promise(
            "the ISR holds what is committed",
            "A record that a leader takes for committed is in the files of every in-sync replica, "
            "and of every replica that joins the ISR; in the end all replicas are equal.",
            "A record that a producer takes for stored, or that a consumer has read, is lost with "
            "one broker.",
        ),
        "P20": Promise(
            "",
            "A record that a consumer has read at an offset stays there.",
        ),
        "P21": Promise(
            "",
            "A broker removes only data of partitions that it ceased to hold, and in the end has "
            "no data of others.",
        ),
        "P22": Promise(
            "",
            "The image of a new controller equals the whole log; so does, up to its committed "
            "offset, that of a controller that lost the lead; so do all images in the end, and "
            "each snapshot.",
        ),
        "P23": Promise(
            "",
            "A request in the name of a broker that does not have its epoch is refused.",
        ),
        "P24": Promise(
            "",
            "A broker whose metadata has a pause of a copy requests nothing more of it, unless a "
            "running throttled move copies to the broker as well.",
        ),
        "P25": Promise(
            "",
            "A broker that has not stopped cleanly in its last epoch is in no ELR when it "
            "registers again, and with eligible leader replicas in no ISR, whatever it claims.",
        ),
        "P26": Promise(
            "",
            "A follower that is proposed for the ISR has the log of the leader up to the start of "
            "the leader epoch (KAFKA-7128).",
        ),
        "L1": Promise(
            "linearizability",
            "The history of each key is linearizable.",
        ),
        "L2": Promise(
            "reads are not stale",
            "A read is not older than what any client was told before. The image from which an "
            "active controller answers includes every answer given before, by any controller.",
        ),
        "L3": Promise(
            "",
            "A request with an idempotency key is carried out once, by the log, and always "
            "answered alike.",
        ),
        "L4": Promise(
            "",
            "A refused request has changed nothing.",
        ),
        "L5": Promise(
            "",
            "An acknowledged change is there in the end.",
        ),
        "L6": Promise(
            "",
            "A stale read shows the state of the log at the offset that it names, and one process "
            "never goes back.",
        ),
        "L7": Promise(
            "",
            "An answer has the type and one of the errors that its request allows.",
        ),
        "M1": Promise(
            "State Machine Safety",
            "Every replica has the same state at the same offset, as its snapshot shows it.",
            "What a client reads depends on the replica that answers.",
        ),
        "M2": Promise(
            "snapshots are whole",
            "A machine that has loaded a snapshot would write the same snapshot.",
            "A replica that restarts, or was far behind, continues from another state.",
        ),
        "M3": Promise("your own invariant", "`check` finds nothing wrong."),
        "M4": Promise(
            "a machine answers",
            "`apply`, `snapshot` and `load_snapshot` raise nothing.",
            "The replica ends, and so does every other one: they all apply the same record.",
        ),
    }
)
