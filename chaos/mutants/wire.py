"""Faults in the checks of bytes that arrive from other nodes."""

from typing import Final

from chaos.mutants.mutant import Mutant

WIRE: Final = (
    Mutant(
        name="requests of a replica of another cluster are accepted",
        module="quorum.protocol.raft_types",
        old="    if cluster_id == here.cluster_id or (cluster_id is None and not is_required):\n",
        new="    if True:\n",
        caught_by=("R13",),
        directed=(
            "tests/quorum/driver/test_raft_rpc.py::"
            "test_a_replica_of_another_cluster_is_refused_by_name_and_never_heard"
        ),
        seed=1,
    ),
    Mutant(
        name="a response with INCONSISTENT_CLUSTER_ID is accepted",
        module="quorum.raft_rpc",
        old="    if response.error is Error.INCONSISTENT_CLUSTER_ID:\n",
        new="    if False:\n",
        caught_by=("R13",),
        directed=(
            "tests/quorum/driver/test_raft_rpc.py::"
            "test_a_replica_of_another_cluster_is_refused_by_name_and_never_heard"
        ),
        seed=1,
    ),
    Mutant(
        name="the length of a frame is not limited",
        module="quorum.protocol.frames",
        old="        if length < 0 or length > self._frame_bytes_max:\n",
        new="        if length < 0:\n",
        caught_by=("R30",),
        directed=(
            "tests/quorum/protocol/test_frames.py::"
            "test_a_frame_of_the_greatest_length_is_taken_and_one_byte_more_is_not"
        ),
        seed=11,
    ),
    Mutant(
        name="a malformed request leaves its connection open",
        module="quorum.transport.inbound",
        old="            self._handler(request)\n"
        "        except Malformed as malformed:\n"
        "            self.close_because(str(malformed))\n",
        new="            self._handler(request)\n        except Malformed:\n            pass\n",
        caught_by=("R30",),
        directed=(
            "tests/quorum/transport/test_server.py::"
            "test_a_body_that_the_handler_cannot_read_is_the_fault_of_the_peer"
        ),
        seed=27,
    ),
    Mutant(
        name="a malformed response is an internal error of the client",
        module="quorum.raft_rpc",
        old="        except (Malformed, CorruptBatch,",
        new="        except (CorruptBatch,",
        caught_by=("R23",),
        directed=(
            "tests/chaos/network/test_in_memory_connection.py::test_an_unreadable_answer_ends_the_call_without_one"
        ),
        seed=27,
    ),
    Mutant(
        name="received records are appended without a checksum test",
        module="quorum.records.batch",
        old="        check_crc(header, position, batch)\n        outline",
        new="        outline",
        caught_by=("R5", "R8", "R12", "R20", "R23"),
        directed=("tests/quorum/driver/test_raft_rpc.py::test_corrupt_records_count_as_no_answer"),
        seed=1,
    ),
)
