"""The HTTP service: `create_app(settings, open_tracker)` in `app.py`, run by `server.py`.

A turn's way through it: `guards.py` (who asks, how much, how big), a route (`writes.py`), `core.py` (batchers around
the store and the tracker), and back as one of the `views.py`.
"""
