"""Many dialogues: annotated on this machine's cores (`local.py`, `resumable.py`) or on many machines (`on_ray.py`)."""

from somdst.bulk.annotating import Annotated, Opener, Pretrained, annotate
from somdst.bulk.local import annotate_all
from somdst.bulk.resumable import Listener, Plan, Summary, annotate_file

__all__ = [
    "Annotated",
    "Listener",
    "Opener",
    "Plan",
    "Pretrained",
    "Summary",
    "annotate",
    "annotate_all",
    "annotate_file",
]
