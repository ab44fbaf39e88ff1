"""Every capability names the right that it needs, and the roles follow from it."""

from admin.capabilities.decommission import DecommissionBrokers
from admin.capabilities.needs import ALTER_CLUSTER, DESCRIBE_CLUSTER, Role
from admin.capabilities.registry import CAPABILITIES


def test_every_capability_says_what_it_needs() -> None:
    support = "node.support"  # It reads settings and the log, which only administrators see.
    for kind in CAPABILITIES.values():
        is_more = kind.CHANGES or support == kind.NAME
        assert (kind.NEEDS.role is not Role.VIEWER) == is_more, kind.NAME
    admins = {name for name, kind in CAPABILITIES.items() if kind.NEEDS.role is Role.ADMIN}
    security = {"acls.create", "acls.delete", "users.set", "users.delete"}
    assert admins == {"quorum.alter-voters", support, *security}


def test_a_dry_run_needs_what_reads_need() -> None:
    emptying = DecommissionBrokers(broker_ids=(1,))
    assert emptying.needs() is ALTER_CLUSTER
    assert DecommissionBrokers(broker_ids=(1,), dry_run=True).needs() is DESCRIBE_CLUSTER


def test_roles_include_those_before_them() -> None:
    included = [[a.includes(b) for b in Role] for a in Role]
    assert included == [[True, False, False], [True, True, False], [True, True, True]]
