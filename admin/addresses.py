"""Lists of addresses, as `--bootstrap-server` takes them. Nothing here connects."""

from quorum.transport.address import Address, parse_address

__all__ = ["Address", "parse_address", "parse_addresses"]


def parse_addresses(text: str) -> tuple[Address, ...]:
    """The addresses of `host:port,host:port`; at least one, none twice. Raises `ValueError`."""
    found: list[Address] = []
    for part in text.split(","):
        address = parse_address(part)
        if address in found:
            raise ValueError(f"{address} is listed twice")
        found.append(address)
    return tuple(found)
