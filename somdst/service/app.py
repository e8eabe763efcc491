"""`create_app`: the ASGI application, put together from the service, the routes and the guards before them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from somdst import __version__
from somdst.errors import SomdstError
from somdst.service import openapi, schema_routes
from somdst.service.configuration import Settings
from somdst.service.core import OpenTracker, Service
from somdst.service.guards import Guarded, Limited, Observed, problem
from somdst.service.limits import Meter, within_limits
from somdst.service.routes import router
from somdst.service.views import Health, Readiness
from somdst.store import usage
from somdst.tracking.records import JsonRecord
from somdst.tracking.tracker import Tracker

PAGE = Path(__file__).parent / "page"


def create_app(settings: Settings, open_tracker: OpenTracker) -> FastAPI:
    """The application. `open_tracker` opens a model by its folder or name, in the background."""
    service = Service(settings, open_tracker)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="somdst",
        version=__version__,
        summary="Track what a user wants over a conversation.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's page loads scripts from another host
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        middleware=[
            Middleware(Observed, metrics=service.metrics),
            Middleware(Guarded, settings=settings),
            Middleware(Limited, settings=settings),
        ],
    )
    app.state.service = service
    app.state.meter = Meter(settings.limits, lambda tenant: service.read(usage, service.store, tenant))
    counted = [Depends(within_limits)] if settings.limits else []
    for routes in (router, schema_routes.router):
        app.include_router(routes, dependencies=counted)
    _add_monitoring(app, service)
    _add_page(app)
    _add_problems(app)
    app.openapi = lambda: openapi.description(app, [*app.routes, *router.routes, *schema_routes.router.routes])  # type: ignore[method-assign]
    return app


def _add_monitoring(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", tags=["monitoring"], responses=_examples(openapi.HEALTH))
    async def health() -> Health:
        """The process is up."""
        return Health(status="ok")

    @app.get("/readyz", tags=["monitoring"], responses=_examples(openapi.READY, 503))
    async def ready() -> Readiness:
        """The model is loaded and the database answers; if not, 503 with the reason."""
        model = service.models.tracker.predictor.model_id
        await service.read(service.store.ping)
        return Readiness(ready=True, model=model)

    @app.get("/metrics", tags=["monitoring"], response_class=Response, responses=_METRICS)
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


_METRICS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Prometheus' text format",
        "content": {"text/plain": {"schema": {"type": "string"}, "example": "somdst_turns_total 12.0\n"}},
    }
}


def _examples(example: JsonRecord, *codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: entry for code, entry in openapi.answers(example, *codes).items() if code in (200, *codes)}


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        if not (PAGE / "index.html").is_file():
            raise HTTPException(404, "The page is not installed: use the API, which /openapi.json describes.")
        return FileResponse(PAGE / "index.html")

    app.mount("/static", StaticFiles(directory=PAGE, check_dir=False), name="static")


def _add_problems(app: FastAPI) -> None:
    """Every error is `{"error": "one sentence"}`."""

    @app.exception_handler(SomdstError)
    async def known(_: Request, error: SomdstError) -> Response:
        return problem(error)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        sentence = error.detail if error.detail.endswith(".") else _HTTP.get(error.status_code, f"{error.detail}.")
        return JSONResponse({"error": sentence}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return JSONResponse({"error": openapi.PROBLEMS[400]}, 400)
        place = ".".join(str(part)[:60] for part in first["loc"][1:]) or str(first["loc"][0])
        sentence = f"In the request, at `{place}`: {first['msg'][:1].lower()}{first['msg'][1:]}."
        if first["loc"][:2] == ("body", "schema") and first["type"] in _SCHEMA_PROBLEMS:
            sentence = f"In the request, `schema` must be {_SCHEMA_PROBLEMS[first['type']]}."
        return JSONResponse({"error": sentence.encode("ascii", "backslashreplace").decode()}, 422)


_SCHEMA_PROBLEMS = {
    "string_type": "a JSON object or text",
    "string_pattern_mismatch": "a JSON object or the id of a stored schema, which is 24 hexadecimal digits",
}
_HTTP = {
    400: openapi.PROBLEMS[400],
    404: "There is nothing at this address: /openapi.json lists what there is.",
    405: "This method is not allowed here: /openapi.json lists what is.",
}


def describe() -> dict[str, Any]:
    """The OpenAPI description of the service, without starting one. `docs/openapi.json` is this."""

    def unused(_: str) -> Tracker:
        raise AssertionError("nothing is opened to describe a service")

    return create_app(Settings(), unused).openapi()
