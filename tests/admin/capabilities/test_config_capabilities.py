"""Requests about configurations, without a node."""

from admin.capabilities.configs import AlterClusterConfigs


class Compared(str):
    """A name that counts how often any name is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_the_work_for_a_long_list_of_names_grows_with_its_length_alone() -> None:
    names = [f"name-{number}" for number in range(1_000)]
    Compared.comparisons = 0
    request = AlterClusterConfigs(delete=tuple(map(Compared, names)))
    assert request.contradiction() is None
    assert Compared.comparisons <= 5 * len(names)
    twice = AlterClusterConfigs(delete=(*names, "name-7", "name-5"))
    assert twice.contradiction() == "name-5 is named twice; name it once"
