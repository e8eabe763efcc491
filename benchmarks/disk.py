"""A bad disk under SQLite, in this process: slow, full, or without what was not synced when the power went.

`install` puts itself between SQLite and the file system (SQLite's own VFS, reached with ctypes): the real calls are
made, and around them a write fails while there is a file `full` in a folder, a sync takes as long as the file `slow`
says, and after each sync the file is copied. `cut_power` puts these copies back: what was written but never synced is
gone, as on a real machine. Does not know PostgreSQL, which is crashed by stopping it (`postgres.py`).
"""

from __future__ import annotations

import _sqlite3
import ctypes
import fcntl
import os
import shutil
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

SQLITE_FULL = 13
SUFFIXES = ("", "-wal")
"""Of the files that matter after a crash; the index of the write-ahead log is made again."""

_POINTER, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_Open = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _POINTER, _INT, _POINTER)
_Write = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _INT, _LONG)
_Sync = ctypes.CFUNCTYPE(_INT, _POINTER, _INT)


class _Vfs(ctypes.Structure):
    """The start of `sqlite3_vfs`."""

    _fields_ = [
        ("version", _INT),
        ("file_size", _INT),
        ("longest_path", _INT),
        ("next", _POINTER),
        ("name", ctypes.c_char_p),
        ("data", _POINTER),
        ("open", _POINTER),
    ]


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`, of which three are named."""

    _fields_ = [
        ("version", _INT),
        ("close", _POINTER),
        ("read", _POINTER),
        ("write", _POINTER),
        ("truncate", _POINTER),
        ("sync", _POINTER),
        ("others", _POINTER * 13),
    ]


_installed: list[Any] = []  # the callbacks: they must live as long as SQLite may call them


def install(folder: Path) -> None:
    """Make the disk of every SQLite database that this process opens from now on a bad one, as `folder` says.

    The copies are kept in the folder too, so no database may be in it.
    """
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    sqlite3.connect(":memory:").close()  # SQLite sets itself up
    vfs = library.sqlite3_vfs_find(None).contents
    really_open = _Open(vfs.open)
    paths: dict[int, str] = {}
    made: dict[int, _Methods] = {}

    def opened(this: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        code = int(really_open(this, name, file, flags, out))
        methods = _POINTER.from_address(file)
        if code == 0 and methods.value and name:
            paths[file] = os.fsdecode(ctypes.string_at(name))
            if methods.value not in made:
                made[methods.value] = replaced(methods.value)
            methods.value = ctypes.addressof(made[methods.value])
        return code

    def replaced(address: int) -> _Methods:
        methods = _Methods.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(_Methods)))
        really_write, really_sync = _Write(methods.write), _Sync(methods.sync)

        def write(file: int, data: int, size: int, place: int) -> int:
            return SQLITE_FULL if (folder / "full").exists() else int(really_write(file, data, size, place))

        def sync(file: int, flags: int) -> int:
            with suppress(OSError, ValueError):
                time.sleep(float((folder / "slow").read_text()))
            code = int(really_sync(file, flags))
            if code == 0:
                _copy(paths[file], folder)
            return code

        callbacks = _Write(write), _Sync(sync)
        _installed.extend((*callbacks, really_write, really_sync))
        methods.write, methods.sync = (ctypes.cast(callback, _POINTER).value for callback in callbacks)
        return methods

    callback = _Open(opened)
    _installed.extend((callback, really_open, made, replaced))
    vfs.open = ctypes.cast(callback, _POINTER).value


def _copy(path: str, folder: Path) -> None:
    """Keep what is on the disk now. One process at a time, so that no older copy replaces a newer one."""
    target = folder / Path(path).name
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.copyfile(path, f"{target}.new")
        Path(f"{target}.new").replace(target)


def cut_power(database: Path, folder: Path) -> None:
    """The file as it is after the power went. No process may have it open."""
    for suffix in SUFFIXES:
        file, kept = Path(f"{database}{suffix}"), folder / f"{database.name}{suffix}"
        if kept.exists():
            shutil.copyfile(kept, file)
        else:
            file.unlink(missing_ok=True)
    Path(f"{database}-shm").unlink(missing_ok=True)
