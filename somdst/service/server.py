"""Runs the application under uvicorn: where it may listen, and how it stops."""

from __future__ import annotations

import socket

import uvicorn
from starlette.types import ASGIApp

from somdst.errors import InputError
from somdst.files import reason
from somdst.service.api_keys import VARIABLE
from somdst.service.configuration import Settings
from somdst.service.guards import loopback, protocol
from somdst.service.monitoring import log_configuration

BACKLOG = 2048
"""Connections that wait to be accepted; uvicorn's own default."""


def serve(app: ASGIApp, settings: Settings, *, sockets: list[socket.socket], log_level: str = "INFO") -> None:
    """Serve until SIGINT or SIGTERM, then finish every turn that was accepted."""
    server(app, settings, log_level=log_level).run(sockets=sockets)


def server(app: ASGIApp, settings: Settings, *, log_level: str = "INFO") -> uvicorn.Server:
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
    return uvicorn.Server(config)


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
        # The protocol must be named: asyncio turns TCP_NODELAY on only if it is TCP. Without it every
        # answer, which is written as head and body, waits 40 ms for the client's delayed acknowledgement.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)  # two sockets that do not listen yet may be bound to one port
    except (OSError, OverflowError) as error:
        raise InputError(
            f"Cannot listen on {host} port {port}: {reason(error)}; choose another with --port."
        ) from error
    listener.set_inheritable(True)
    return listener
