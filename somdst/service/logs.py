"""Structured logs: one JSON object a line on stderr. No utterance, no value and no key is in them unless asked for."""

from __future__ import annotations

import json
import logging
from typing import Any

LOGGER = logging.getLogger("somdst.service")


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        data: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        data |= getattr(record, "fields", {})
        if record.exc_info:
            data["trace"] = self.formatException(record.exc_info)
        return json.dumps(data)


def log(event: str, *, level: int = logging.INFO, error: BaseException | None = None, **fields: object) -> None:
    LOGGER.log(level, event, exc_info=error, extra={"fields": fields})


def configuration(*, level: str = "INFO") -> dict[str, Any]:
    """For `logging.config.dictConfig`: the service's and the server's own messages, all as JSON on stderr."""
    handler = {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}
    logger = {"handlers": ["stderr"], "level": level, "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}},
        "handlers": {"stderr": handler},
        "loggers": {"somdst.service": logger, "uvicorn.error": logger, "uvicorn": logger},
    }
