"""Annotating on many machines: the same work on Ray Data, one predictor per actor (extra `ray`).

Reads JSON lines or Parquet, from a file, a folder or an address such as s3://bucket/in. A target that ends in .jsonl or
.parquet is one file, in the order of the input, written by this process. Any other target is a folder of Parquet files
that the workers write. A Parquet row is a dialogue; `id` and `turns` (a list of structs, or its JSON text) are read.
"""

from __future__ import annotations

import logging
import os
import shutil
import warnings
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from somdst.bulk.annotating import BATCH, Annotated, Opener, annotate, check_dialogue
from somdst.bulk.resumable import Checked, Listener, Plan, Summary, check_file, to_bytes
from somdst.corpora.jsonlines import dialogue_from_json
from somdst.corpora.reading import parse_json
from somdst.errors import CorpusError, InputError, ModelError
from somdst.files import replacing
from somdst.memory.dialogue import Dialogue
from somdst.tracking.records import TrackedTurn, TurnText, adapter

if TYPE_CHECKING:
    import pyarrow as pa


def annotate_on_ray(
    source: str,
    target: str,
    opener: Opener,
    *,
    keep_going: bool = False,
    force: bool = False,
    workers: int = 2,
    batch: int = BATCH,
    address: str | None = None,
    listener: Listener = Listener(),
) -> Summary:
    """Annotate `source` into `target` with `workers` actors, on the cluster at `address` or on this machine."""
    as_file = target.endswith((".jsonl", ".parquet"))
    _check_target(target, force=force)
    _ = opener.identity  # a model or schema that cannot be opened is an error before Ray starts
    checked = _check_source(source, keep_going=keep_going)
    listener.start(Plan(checked))
    began = perf_counter()
    with _ray(address, workers) as ray:
        rows = _rows(ray, source).repartition(target_num_rows_per_block=2 * batch)
        rows = rows.map_batches(
            Annotator,
            fn_constructor_args=(opener, source, batch, target.endswith(".jsonl")),
            batch_format="pyarrow",
            batch_size=2 * batch,
            compute=ray.data.ActorPoolStrategy(size=workers),
            num_cpus=1,
        )
        blocks = _to_file(rows, Path(target)) if as_file else _to_folder(ray, rows, target)
        dialogues = turns = bad = 0
        with closing(blocks):
            for good, more_turns, problems in blocks:
                if problems and not keep_going:
                    raise CorpusError(f"{problems[0].rstrip('.')}. With --keep-going bad dialogues are skipped.")
                dialogues, turns, bad = dialogues + good, turns + more_turns, bad + len(problems)
                listener.turns(more_turns)
    seconds = perf_counter() - began
    return Summary(target, dialogues, turns, max(bad, len(checked.bad)), 0, seconds, turns / seconds)


class Annotator:
    """Runs in an actor: opens its predictor once, then annotates block after block."""

    def __init__(self, opener: Opener, source: str, batch: int, as_lines: bool) -> None:
        self.tracker = opener(threads=1)
        self.source, self.batch, self.as_lines = source, batch, as_lines

    def __call__(self, block: pa.Table) -> pa.Table:
        import pyarrow as pa

        good: list[Dialogue] = []
        bad: list[str] = []
        for row in block.to_pylist(maps_as_pydicts="lossy"):
            try:
                good.append(_dialogue(row, self.source))
            except CorpusError as error:
                bad.append(str(error))
        annotated = annotate(self.tracker, good, batch=self.batch)
        rows = [_line_row(item) if self.as_lines else item.to_json() for item in annotated]
        problems = [{"error": problem} for problem in bad]
        return pa.Table.from_pylist([*rows, *problems], schema=line_schema() if self.as_lines else parquet_schema())


def _line_row(item: Annotated) -> dict[str, Any]:
    return {"line": to_bytes([item.to_line()]), "turns": len(item.results)}


def _dialogue(row: dict[str, Any], source: str) -> Dialogue:
    if "text" in row and "turns" not in row:  # a line of JSON
        where = f"{source}, the line that begins with {row['text'][:30]!r}"
        data = parse_json(row["text"].encode("utf-8", "surrogatepass"), where)
    else:
        where = f"{source}, a row"
        turns = row.get("turns")
        data = {"id": row.get("id"), "turns": parse_json(turns.encode(), where) if isinstance(turns, str) else turns}
        data["goal"] = row.get("goal")
    dialogue = dialogue_from_json(data, where=where)
    check_dialogue(dialogue, where=where)
    return dialogue


# Reading and writing


def _check_target(target: str, *, force: bool) -> None:
    path = Path(target)
    if "://" in target:
        return
    if path.exists() and not (force and path.is_file()):
        advice = (
            "name another, or give --force to replace it" if path.is_file() else "name a folder that does not exist"
        )
        raise InputError(f"{target} already exists: {advice}.")
    if not path.parent.is_dir():
        raise InputError(f"The output {target} must be in a folder that exists.")


def _check_source(source: str, *, keep_going: bool) -> Checked:
    """A local file of JSON lines is checked before any work is done. Anything else is checked while it is read."""
    path = Path(source)
    if "://" not in source and not path.exists():
        raise CorpusError(f"There is no file or folder {source}.")
    if path.suffix == ".xz":
        raise InputError(f"Ray cannot read {source}, which is packed with xz: unpack it, or leave out --engine ray.")
    if path.is_file() and path.suffix != ".parquet":
        return check_file(path, keep_going=keep_going)
    return Checked(0, 0, ())


def _rows(ray: Any, source: str) -> Any:
    if source.endswith(".parquet") or _holds_parquet(source):
        return ray.data.read_parquet(source)
    return ray.data.read_text(source, drop_empty_lines=True)


def _holds_parquet(source: str) -> bool:
    """Whether this is a folder, here or in a bucket, with Parquet files in it."""
    from pyarrow import fs

    if "://" not in source:
        return any(Path(source).glob("*.parquet"))
    system, path = fs.FileSystem.from_uri(source)
    if system.get_file_info(path).type is not fs.FileType.Directory:
        return False
    files = system.get_file_info(fs.FileSelector(path))
    return any(file.path.endswith(".parquet") for file in files)


Counts = tuple[int, int, list[str]]
"""For a block: good dialogues, their turns, and what is wrong with the others."""


def _to_file(rows: Any, target: Path) -> Generator[Counts, None, None]:
    """One file, in the order of the input. It appears when all of it is written."""
    import pyarrow.parquet as pq

    as_lines = target.suffix == ".jsonl"
    with replacing(target) as stream:
        writer = None if as_lines else pq.ParquetWriter(stream, parquet_schema())
        for block in rows.iter_batches(batch_size=None, batch_format="pyarrow"):
            good = block.filter(block.column("error").is_null())
            if writer is None:
                stream.write(b"".join(good.column("line").to_pylist()))
            else:
                writer.write_table(good.cast(parquet_schema()))
            turns = sum(good.column("turns").to_pylist()) if as_lines else _count_turns(good)
            yield good.num_rows, turns, block.column("error").drop_null().to_pylist()
        if writer is not None:
            writer.close()


def _to_folder(ray: Any, rows: Any, target: str) -> Generator[Counts, None, None]:
    """Parquet files that the workers write. A bad row is kept with its `error`."""
    try:
        rows.write_parquet(target)
        for block in ray.data.read_parquet(target).iter_batches(batch_size=None, batch_format="pyarrow"):
            good = block.filter(block.column("error").is_null())
            yield good.num_rows, _count_turns(good), block.column("error").drop_null().to_pylist()
    except BaseException:
        if "://" not in target:
            shutil.rmtree(target, ignore_errors=True)  # it did not exist before, so everything in it is incomplete
        raise


def _count_turns(block: pa.Table) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(pc.list_value_length(block.column("turns"))).as_py() or 0)


def line_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([("line", pa.binary()), ("turns", pa.int64()), ("error", pa.string())])


def parquet_schema() -> pa.Schema:
    """One dialogue per row, with the fields of `Annotated.to_json`. Their types come from the records."""
    import pyarrow as pa

    said, tracked = (adapter(kind).json_schema(mode="serialization") for kind in (TurnText, TrackedTurn))
    turn = {**said, "properties": {**said["properties"], **tracked["properties"]}}
    turns = pa.list_(_arrow_type(turn, tracked["$defs"]))
    return pa.schema([("id", pa.string()), ("turns", turns), ("goal", pa.list_(pa.string())), ("error", pa.string())])


def _arrow_type(shape: dict[str, Any], definitions: dict[str, Any]) -> pa.DataType:
    """The Arrow type of what a JSON schema describes. Every Arrow type may be null."""
    import pyarrow as pa

    plain = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    match shape:
        case {"$ref": name}:
            return _arrow_type(definitions[name.removeprefix("#/$defs/")], definitions)
        case {"anyOf": [inner, {"type": "null"}]}:
            return _arrow_type(inner, definitions)
        case {"type": "array", "items": item}:
            return pa.list_(_arrow_type(item, definitions))
        case {"properties": fields}:
            return pa.struct([(name, _arrow_type(field, definitions)) for name, field in fields.items()])
        case {"type": "object", "additionalProperties": value}:
            return pa.map_(pa.string(), _arrow_type(value, definitions))
        case {"type": kind}:
            return plain[kind]
    raise AssertionError(f"records have no field like {shape}")


# Ray itself


@contextmanager
def _ray(address: str | None, workers: int) -> Iterator[Any]:
    """A running Ray: the one already started, the cluster at `address`, or a new one on this machine."""
    try:
        import ray
        from ray.exceptions import RayError
    except ImportError:
        raise InputError("The engine ray needs the extra `ray`: pip install 'somdst[ray]'.") from None
    started = not ray.is_initialized()
    address = address or os.environ.get("RAY_ADDRESS")
    if started:
        local = {"num_cpus": workers + 1, "include_dashboard": False} if address is None else {"address": address}
        try:
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **local)
        except (ConnectionError, ValueError) as error:
            failed = f"There is no Ray cluster at {address}" if address else "Ray cannot be started"
            raise InputError(f"{failed}: {str(error).splitlines()[0]}") from None
    try:
        with _quiet(ray), warnings.catch_warnings(action="ignore"):
            yield ray
    except RayError as error:
        last = str(error).strip().splitlines()[-1]
        raise ModelError(f"A worker on Ray failed: {last}") from error
    finally:
        if started:
            ray.shutdown()


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Ray Data in order and without its own output; restored afterwards."""
    context, logger = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    before = context.execution_options.preserve_order, context.enable_progress_bars, logger.level
    context.execution_options.preserve_order, context.enable_progress_bars = True, False
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        context.execution_options.preserve_order, context.enable_progress_bars = before[:2]
        logger.setLevel(before[2])
