"""What Prometheus can read at /metrics. One registry a service, so that two in one process do not mix."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from somdst.tracking.log import Entry

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
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
        self.turns = Counter("somdst_turns", "Turns tracked; its rate is turns a second.", registry=self.registry)
        self.batches = Histogram("somdst_batch_size", "Turns in one batch.", buckets=SIZES, registry=self.registry)
        self.operations = Counter(
            "somdst_operations",
            "Changes made to memories, by operation.",
            ["operation", "source"],
            registry=self.registry,
        )
        self.held = Counter("somdst_pending_writes", "Writes held back to be asked about.", registry=self.registry)
        self.refused = Counter(
            "somdst_refused_writes", "Writes asked for by the model and refused.", registry=self.registry
        )
        queue = Gauge("somdst_queue_length", "Turns that are under way.", registry=self.registry)
        queue.set_function(queue_length)

    def entry(self, entry: Entry) -> None:
        """Count what an entry did."""
        if entry.kind == "turn":
            self.turns.inc()
            self.held.inc(len(entry.held))
            self.refused.inc(len(entry.refused))
        for change in entry.changes:
            self.operations.labels(str(change.operation), entry.source).inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)
