"""The HTTP service: `create_app(settings, open_tracker)` in `app.py`, run by `server.py`.

A turn passes through `guards.py` (who asks, how much, how big), a route (`routes.py`), `core.py` (batchers around
the store and the tracker), and back as one of the `views.py`.
"""
