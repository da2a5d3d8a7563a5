"""No test needs a network: connections that leave this machine are refused."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterator
from typing import Any
from unittest import mock

HERE = ("localhost", "", None)


class NetworkError(RuntimeError):
    """A test asked for something beyond this machine."""


@contextlib.contextmanager
def only_loopback() -> Iterator[None]:
    """Refuse to connect to other machines, and to look up their names, within the block."""
    connect, lookup = socket.socket.connect, socket.getaddrinfo

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            refuse_elsewhere(address[0])
        connect(self, address)

    def lookup_here(host: Any, *args: Any, **kwargs: Any) -> list:
        refuse_elsewhere(host)
        return lookup(host, *args, **kwargs)

    with (
        mock.patch.object(socket.socket, "connect", connect_here),
        mock.patch.object(socket, "getaddrinfo", lookup_here),
    ):
        yield


def refuse_elsewhere(host: Any) -> None:
    """Raise a ``NetworkError`` unless the host is this machine."""
    name = host.decode() if isinstance(host, bytes) else host
    if name not in (*HERE, socket.gethostname()) and not is_loopback(name):
        raise NetworkError(f"tests have no network: something asked for {name}")


def is_loopback(name: str) -> bool:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
