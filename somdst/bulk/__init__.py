"""Many dialogues: annotated on this machine's cores (`local.py`, `files.py`) or on many machines (`on_ray.py`)."""

from somdst.bulk.annotating import Annotated, Opener, Pretrained, annotate
from somdst.bulk.local import annotate_all
from somdst.bulk.resumable import Summary, annotate_file

__all__ = ["Annotated", "Opener", "Pretrained", "Summary", "annotate", "annotate_all", "annotate_file"]
