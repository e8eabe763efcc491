"""Runs the application under uvicorn: where it may listen, how it stops, and how long it waits for a request's head."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from somdst.errors import InputError
from somdst.service.configuration import VARIABLE, Settings
from somdst.service.guards import loopback
from somdst.service.monitoring import log_configuration

BACKLOG = 2048
"""Connections that wait to be accepted; uvicorn's own default."""


def serve(app: FastAPI, settings: Settings, *, sockets: list[socket.socket], log_level: str = "INFO") -> None:
    """Serve until SIGINT or SIGTERM, then finish every turn that was accepted."""
    config = uvicorn.Config(
        app,
        http=protocol(settings.header_timeout),
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(settings.shutdown_timeout),
        h11_max_incomplete_event_size=32 * 1024,
        log_config=log_configuration(level=log_level),
    )
    uvicorn.Server(config).run(sockets=sockets)


def bind(host: str, port: int, *, keys: bool, insecure: bool) -> socket.socket:
    """A socket that listens already, so that a port in use is noticed before anything else is started.

    Without keys only loopback is allowed, unless the operator insists.
    """
    if not keys and not insecure and not loopback(host):
        raise InputError(
            f"Without API keys the service listens on loopback only, not on {host}: give --keys FILE, "
            f"set {VARIABLE}, or give --insecure if something else keeps strangers out."
        )
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # The protocol must be named: asyncio turns TCP_NODELAY on only where it reads TCP there. Without it every
        # answer, which is written as head and body, waits 40 ms for the client's delayed acknowledgement.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)  # two sockets that do not listen yet may be bound to one port
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"Cannot listen on {host} port {port}: {reason}; choose another with --port.") from error
    listener.set_inheritable(True)
    return listener


def protocol(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's HTTP with a limit on how long the head of a request may take to arrive. Without it, a client that sends
    one letter per minute keeps its connection for ever."""

    class ImpatientProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._timer = self.loop.call_later(seconds, self._give_up)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._answering():
                self._cancel()
            elif self._timer is None:  # a part of the next request's head
                self._timer = self.loop.call_later(seconds, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel()
            super().connection_lost(exc)

        def _answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _give_up(self) -> None:
            if not self._answering():
                self.transport.close()

        def _cancel(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return ImpatientProtocol
