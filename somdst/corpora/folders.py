"""`Folder`: a folder or a zip of corpus files, used in the same way. Files in it may be compressed."""

from __future__ import annotations

import gzip
import lzma
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from somdst.corpora.reading import DAMAGED, parse_json
from somdst.errors import CorpusError
from somdst.files import reason

MAX_DEPTH = 3
"""How many folders deep to search: a zip often has one folder, which has one folder per split."""


@dataclass(frozen=True, slots=True)
class Folder:
    path: Path
    names: tuple[str, ...]
    """The files in it, by their path from here, those nearest to the top first."""

    @classmethod
    def open(cls, path: Path) -> Folder:
        names = _names_in_zip(path) if path.suffix == ".zip" else _names_in_folder(path)
        return cls(path, tuple(sorted(names, key=lambda name: (name.count("/"), name))))

    @property
    def name(self) -> str:
        return self.path.resolve().name.removesuffix(".zip")

    def where(self, name: str) -> str:
        """Names a file of the folder in an error."""
        return f"{name} in {self.path}" if self.path.suffix == ".zip" else str(self.path / name)

    def only(self, *names: str) -> Folder:
        """The same folder as if only these files were in it."""
        return Folder(self.path, tuple(name for name in self.names if name in names))

    def matching(self, pattern: str) -> list[str]:
        """The files whose own name, without .gz or .xz, fits a pattern such as "dialogues_*.json"."""
        return [name for name in self.names if PurePosixPath(_uncompressed(name)).match(pattern)]

    def find(self, *wanted: str) -> str:
        """The file of one of these names that is nearest to the top."""
        for pattern in wanted:
            for name in self.matching(pattern):
                return name
        raise CorpusError(f"{self.path} has no {wanted[0]}: fetch the corpus again, or give its folder.")

    def read(self, name: str) -> bytes:
        try:
            content = self._content(name)
            if name.endswith(".xz"):
                return lzma.decompress(content)
            return gzip.decompress(content) if name.endswith(".gz") else content
        except (*DAMAGED, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise CorpusError(f"{self.where(name)} is cut short or damaged ({error}): fetch it again.") from error
        except OSError as error:
            raise CorpusError(f"Cannot read {self.where(name)}: {reason(error)}.") from error

    def _content(self, name: str) -> bytes:
        if self.path.suffix != ".zip":
            return (self.path / name).read_bytes()
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(name)

    def read_text(self, name: str) -> str:
        try:
            return self.read(name).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{self.where(name)} is not UTF-8 text (byte {error.start}): save it as UTF-8."
            ) from error

    def load_json(self, name: str) -> object:
        return parse_json(self.read(name), self.where(name))


def _uncompressed(name: str) -> str:
    return name.removesuffix(".gz").removesuffix(".xz")


def _names_in_zip(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        raise CorpusError(f"{path} is not a zip, or was cut short ({error}): fetch it again.") from error
    except OSError as error:
        raise CorpusError(f"Cannot read {path}: {reason(error)}.") from error
    # Zips made on a Mac carry a shadow of every file.
    return [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX/")]


def _names_in_folder(path: Path) -> list[str]:
    names: list[str] = []
    for folder, below, files in os.walk(path):
        inside = Path(folder).relative_to(path)
        names += [(inside / file).as_posix() for file in files if not file.startswith(".")]
        if len(inside.parts) + 1 >= MAX_DEPTH:
            below.clear()
    return names
