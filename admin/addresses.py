"""Lists of addresses as people write them on a command line. Nothing here connects."""

from quorum.transport.address import Address, parse_address

__all__ = ["Address", "parse_address", "parse_addresses"]


def parse_addresses(text: str) -> tuple[Address, ...]:
    """The addresses of a list like `host:port,host:port`; at least one, none twice.

    `ValueError` says what is wrong with it.
    """
    found = tuple(parse_address(part) for part in text.split(","))
    for place, address in enumerate(found):
        if address in found[:place]:
            raise ValueError(f"{address} is listed twice")
    return found
