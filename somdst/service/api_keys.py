"""The API keys of the tenants: `Keys`, from a file or the environment, and how `somdst keys` changes a file.

A key file has one key per line; `#` starts a comment. `tenant:sha256:DIGEST` is a key that is stored hashed, as
`somdst keys add` writes it; `tenant:key` is one in the clear. Several keys may name one tenant, so that a key can be
replaced without a pause. The file is read again when it has changed. The environment variable SOMDST_API_KEYS holds the
same, separated by commas, and is read once. In memory there are digests only, and all are compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from somdst.errors import FileError, InputError
from somdst.files import reason, write_text
from somdst.service.monitoring import log

VARIABLE = "SOMDST_API_KEYS"
SHORTEST = 16
"""Fewest characters of a key. Sixteen random ones cannot be guessed."""
HASHED = "sha256:"
TENANT = r"[\w.-]{1,100}"


@dataclass(frozen=True, slots=True)
class ApiKey:
    tenant: str
    digest: bytes

    @property
    def id(self) -> str:
        """What a key is called where it must not be shown: the start of its digest."""
        return self.digest.hex()[:12]


class Keys:
    """The keys of all tenants. Those of a file are read again when it changes."""

    def __init__(self, pairs: Iterable[tuple[str, str]], *, path: Path | None = None, stamp: object = None) -> None:
        self._path = path
        self._stamp = stamp
        self.known = _known(pairs)
        self.on_change: Callable[[Sequence[ApiKey]], object] = lambda known: None
        """Called with all keys after they were read again."""

    def tenant(self, key: str) -> str | None:
        """The tenant of this key. All keys are compared even after a match, so that timing reveals nothing."""
        self.refresh()
        digest, found = _digest(key), None
        for known in self.known:
            if hmac.compare_digest(known.digest, digest):
                found = known.tenant
        return found

    def refresh(self) -> None:
        """Read the file again if it has changed. One that cannot be read changes nothing."""
        if self._path is None or (stamp := _stamp(self._path)) == self._stamp:
            return
        self._stamp = stamp
        try:
            self.known = _known(_read(self._path))
        except InputError as error:  # a file that is being edited, or a mistake: nobody is locked out by it
            log("keys not read", level=logging.ERROR, reason=f"{error} The keys before it stay in force.")
            return
        log("keys read", keys=len(self))
        self.on_change(self.known)

    def __len__(self) -> int:
        return len(self.known)

    def __repr__(self) -> str:
        return f"Keys({len(self)} keys of {len({key.tenant for key in self.known})} tenants)"


def load_keys(path: str | Path | None, environment: Mapping[str, str]) -> Keys | None:
    """The keys of a file, else of the environment; None if there are none."""
    if path is not None:
        file = Path(path)
        stamp = _stamp(file)  # taken first: a change while it is read is then seen
        return Keys(_read(file), path=file, stamp=stamp)
    if environment.get(VARIABLE):
        parts = environment[VARIABLE].split(",")
        return Keys(_pairs((f"entry {n} of {VARIABLE}", part) for n, part in enumerate(parts, 1)))
    return None


def add_key(path: Path, tenant: str) -> str:
    """Add a new random key for a tenant to a key file, hashed. Returns the key, which is stored nowhere."""
    if not re.fullmatch(TENANT, tenant, re.ASCII):
        raise InputError(f"A tenant is 1 to 100 letters, digits, `_`, `.` and `-`, not {tenant!r:.120}.")
    key = secrets.token_urlsafe(24)
    line = f"{tenant}:{HASHED}{_digest(key).hex()}"
    before = _text(path) if path.exists() else ""
    if not before:
        _make_private(path)
    write_text(path, f"{before}{'' if before.endswith(chr(10)) or not before else chr(10)}{line}\n")
    return key


def list_keys(path: Path) -> Sequence[ApiKey]:
    """The keys of a file, as digests."""
    return _known(_read(path))


def remove_key(path: Path, id: str) -> ApiKey:
    """Remove the key with this id from a key file; comments and other keys stay."""
    found = [key for key in list_keys(path) if key.id == id]
    if not found:
        raise InputError(f"There is no key {id} in {path}: `somdst keys list {path}` shows them.")
    lines = _text(path).splitlines()
    kept = [line for line in lines if not any(key.id == id for key in _parsed(_pairs([("", line)])))]
    if not any(_pairs((str(path), line) for line in kept)):
        raise InputError(f"The key {id} is the last one in {path}: add another one first.")
    write_text(path, "".join(f"{line}\n" for line in kept))
    return found[0]


def _stamp(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino  # ctime: permissions that were mended


def _make_private(path: Path) -> None:
    """Make a key file that only its owner can read."""
    try:
        path.touch(mode=0o600)
    except OSError as error:
        raise FileError(f"Cannot write {path}: {reason(error)}.") from error


def _read(path: Path) -> Iterator[tuple[str, str]]:
    return _pairs((f"line {number} of {path}", line) for number, line in enumerate(_text(path).splitlines(), 1))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read the API keys in {path}: {reason(error)}.") from error


def _pairs(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return (_pair(line, where) for where, text in lines if (line := re.split(r"(?:^|\s)#", text)[0].strip()))


def _pair(line: str, where: str) -> tuple[str, str]:
    # The line itself stays out of the message: it may be a key.
    tenant, colon, key = (part.strip() for part in line.partition(":"))
    if not colon or not re.fullmatch(TENANT, tenant, re.ASCII):
        raise InputError(f"Expected `tenant:key` in {where}, the tenant made of letters, digits, `_`, `.` and `-`.")
    if key.startswith(HASHED) and not re.fullmatch(r"[0-9a-f]{64}", key.removeprefix(HASHED)):
        raise InputError(f"The hashed key in {where} must be `{HASHED}` and 64 hexadecimal digits.")
    if len(key) < SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"The key in {where} must be at least {SHORTEST} printable ASCII characters, without a space.")
    return tenant, key


def _parsed(pairs: Iterable[tuple[str, str]]) -> list[ApiKey]:
    return [
        ApiKey(tenant, bytes.fromhex(key.removeprefix(HASHED)) if key.startswith(HASHED) else _digest(key))
        for tenant, key in pairs
    ]


def _known(pairs: Iterable[tuple[str, str]]) -> list[ApiKey]:
    known = _parsed(pairs)
    if not known:
        raise InputError("There is no API key: write at least one as `tenant:key`.")
    return known


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
