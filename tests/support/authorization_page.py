"""The page about authorization, with the tables of the code."""

from collections.abc import Mapping

from admin.capabilities.registry import CAPABILITIES
from broker.apis.broker_apis import FORWARDED
from broker.authorization import NEEDS as BROKER_NEEDS
from controller.authorization import NEEDS as CONTROLLER_NEEDS
from quorum.protocol.apis import ApiKey
from statemachine.security.rights import Needs
from tests.support.tree import ROOT

PAGE = ROOT / "docs" / "authorization.md"
BEGIN = "<!-- rights -->\n"
END = "<!-- /rights -->\n"


def tables() -> str:
    """The part of the page that comes from the code."""
    lines = ["## Controllers\n", *_table(CONTROLLER_NEEDS)]
    lines += ["\n## Embedded brokers\n", *_table(BROKER_NEEDS)]
    forwarded = ", ".join(f"{key}" for key in sorted(FORWARDED, key=str))
    lines += [
        f"\nForwarded to the controller, which checks the rights of the client: {forwarded}.\n"
    ]
    lines += ["\n## Capabilities\n", "| capability | needs |", "| --- | --- |"]
    lines += [f"| `{name}` | {kind.NEEDS} |" for name, kind in sorted(CAPABILITIES.items())]
    return "\n".join(lines) + "\n"


def _table(needs: Mapping[int, Needs]) -> list[str]:
    rows = [f"| {ApiKey(key)} ({int(key)}) | {needs[key]} |" for key in sorted(needs)]
    return ["| API | needs |", "| --- | --- |", *rows]


def filled(page: str) -> str:
    """The page with the present tables."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{tables()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
