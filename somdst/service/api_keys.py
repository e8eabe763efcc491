"""API keys: which key belongs to which tenant. Keys are kept as digests and compared in constant time.

A file has one `tenant:key` a line, `#` starts a comment; several keys may name one tenant, so that keys can be
changed without a pause. The environment variable SOMDST_API_KEYS has the same, separated by commas.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from somdst.errors import InputError

LOCAL = "local"
"""The tenant of everybody where there are no keys."""

VARIABLE = "SOMDST_API_KEYS"
SHORTEST = 16


class Keys:
    """The keys of all tenants."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._tenants = [(_digest(key), tenant) for tenant, key in pairs]
        if not self._tenants:
            raise InputError("There is no API key: write at least one as `tenant:key`.")

    def tenant(self, key: str) -> str | None:
        """Whose key this is. Every key is compared, whether or not one has matched, so that time tells nothing."""
        digest, found = _digest(key), None
        for known, tenant in self._tenants:
            if hmac.compare_digest(known, digest):
                found = tenant
        return found

    def __len__(self) -> int:
        return len(self._tenants)

    def __repr__(self) -> str:
        return f"Keys({len(self)} keys of {len({tenant for _, tenant in self._tenants})} tenants)"


def load_keys(path: str | Path | None, environment: Mapping[str, str]) -> Keys | None:
    """The keys of a file, or of the environment, or None where there are none."""
    if path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"Cannot read the API keys in {path}: {error}.") from error
        lines = [(f"line {number} of {path}", line) for number, line in enumerate(text.splitlines(), 1)]
    elif environment.get(VARIABLE):
        lines = [(f"entry {n} of {VARIABLE}", part) for n, part in enumerate(environment[VARIABLE].split(","), 1)]
    else:
        return None
    return Keys(_pair(line, where) for where, text in lines if (line := re.split(r"(?:^|\s)#", text)[0].strip()))


def _pair(line: str, where: str) -> tuple[str, str]:
    # The line itself stays out of the message: it may be a key.
    tenant, colon, key = (part.strip() for part in line.partition(":"))
    if not colon or not re.fullmatch(r"[\w.-]{1,100}", tenant, re.ASCII):
        raise InputError(f"Expected `tenant:key` in {where}, the tenant made of letters, digits, `_`, `.` and `-`.")
    if len(key) < SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"The key in {where} must be at least {SHORTEST} printable ASCII characters, without a space.")
    return tenant, key


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
