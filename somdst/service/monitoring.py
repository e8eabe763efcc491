"""What an operator sees: `log`, one JSON object per line on stderr, and `Metrics`, which Prometheus reads at /metrics.

No utterance, value or key is in either, unless the operator asked for utterances in the log. Even then, there is none
of a conversation that has a slot with `redact`.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from somdst.tracking.records import Entry

LOGGER = logging.getLogger("somdst.service")
SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        data: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        data |= getattr(record, "fields", {})
        if record.exc_info:
            data["trace"] = self.formatException(record.exc_info)
        return json.dumps(data)

    def formatException(self, info: Any) -> str:
        """Where it happened and the kind of error. Not its message, which may quote what somebody said."""
        kind, _, trace = info
        return "".join(traceback.format_tb(trace)) + getattr(kind, "__name__", "")


def log(event: str, *, level: int = logging.INFO, error: BaseException | None = None, **fields: object) -> None:
    LOGGER.log(level, event, exc_info=error, extra={"fields": fields})


def log_configuration(*, level: str = "INFO") -> dict[str, Any]:
    """For `logging.config.dictConfig`: the messages of the service and of uvicorn, all as JSON on stderr."""
    handler = {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}
    logger = {"handlers": ["stderr"], "level": level, "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}},
        "handlers": {"stderr": handler},
        "loggers": {"somdst.service": logger, "uvicorn.error": logger, "uvicorn": logger},
    }


class Metrics:
    """One registry per service, so that two services in one process do not mix."""

    def __init__(self, *, queue_length: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "somdst_requests",
            "Requests by method, route and status.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.latency = Histogram(
            "somdst_request_seconds", "Seconds from a request's head to its answer.", ["route"],
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self.turns = Counter("somdst_turns", "Turns tracked; its rate is turns per second.", registry=self.registry)
        self.batches = Histogram("somdst_batch_size", "Turns in one batch.", buckets=SIZES, registry=self.registry)
        self.operations = Counter(
            "somdst_operations",
            "Changes made to memories, by operation.",
            ["operation", "source"],
            registry=self.registry,
        )
        self.held = Counter("somdst_pending_writes", "Writes held back to be asked about.", registry=self.registry)
        self.refused = Counter(
            "somdst_refused_writes", "Writes that the model asked for and that were refused.", registry=self.registry
        )
        self.compilations = Counter(
            "somdst_schema_compilations", "Schemas that the model had to read first.", registry=self.registry
        )
        self.schema_changes = Counter(
            "somdst_schema_changes", "Conversations that went on under another schema.", registry=self.registry
        )
        queue = Gauge("somdst_queue_length", "Turns and edits under way.", registry=self.registry)
        queue.set_function(queue_length)

    def entry(self, entry: Entry) -> None:
        """Count what an entry did."""
        if entry.kind == "turn":
            self.turns.inc()
            self.held.inc(len(entry.held))
            self.refused.inc(len(entry.refused))
        if entry.kind == "schema":
            self.schema_changes.inc()
            return  # what it takes out is nobody's correction
        for change in entry.changes:
            self.operations.labels(str(change.operation), entry.source).inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)
