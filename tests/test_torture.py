"""The torture itself: short runs with fixed seeds find nothing, and with a bug planted into the store they find it.

Runs are bounded by counts. How calls and faults fall together is up to the machine; the verdict is not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from clients import Bounds, Clients, Request
from planted import PLANTS
from postgres import find_binaries, own_postgres
from services import Server
from torture import torture, torture_running

FOREVER = 1e6
"""Seconds: only the counts are bounds here."""


def bounds(*, writes: int, faults: int, conversations: int = 3, writers: int = 4) -> Bounds:
    return Bounds(writers=writers, writes=writes, faults=faults, conversations=conversations, seconds=FOREVER)


def assert_kept(counts: dict[str, int], faults: Sequence[str]) -> None:
    for name in ("acknowledged", "repeated", "reused keys refused", "without an answer", "reads", "erased", "entries"):
        assert counts[name] > 0, name
    assert {name: counts[name] for name in faults} == dict.fromkeys(faults, 2)


@pytest.mark.slow
def test_the_contract_on_sqlite(tmp_path: Path) -> None:
    outcome = torture(str(tmp_path / "c.sqlite"), seed=1, bounds=bounds(writes=200, faults=14))
    assert outcome.violations == []
    assert_kept(
        outcome.counts,
        ["kills", "kills of all", "pauses", "clock jumps", "power cuts", "full disks", "slow disks"],
    )


@pytest.mark.slow
def test_the_contract_on_postgresql() -> None:
    if find_binaries() is None:
        pytest.skip("no PostgreSQL binaries on this machine: install Debian's postgresql")
    with own_postgres() as server:
        outcome = torture(server.new_database(), seed=1, bounds=bounds(writes=200, faults=14), server=server)
    assert outcome.violations == []
    faults = ["kills", "kills of all", "pauses", "clock jumps", "database restarts", "database pauses"]
    assert_kept(outcome.counts, [*faults, "dropped connections"])


FOUND: dict[str, tuple[set[str], Sequence[str]]] = {
    "version-check": ({"versions", "durable"}, ()),
    "key-check": ({"keys"}, ()),
    "create": ({"keys"}, ()),
    "fsync": ({"durable"}, ("power cuts",)),
    "transaction": ({"prefixes", "replay", "versions", "durable"}, ()),
    "replay": ({"replay"}, ()),
    "stale-read": ({"order"}, ()),
    "erasure": ({"erased"}, ()),
    "expiry": ({"expired"}, ()),
}
"""Promises of which a planted bug breaks at least one, and the faults that bring it out."""


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(tmp_path: Path, plant: str) -> None:
    promises, faults = FOUND[plant]
    size = bounds(writes=120, faults=6 if faults else 0, conversations=1)
    outcome = torture(str(tmp_path / "c.sqlite"), seed=2, bounds=size, only=faults or None, plant=plant)
    assert promises & {violation.promise for violation in outcome.violations}, outcome


@pytest.mark.slow
def test_a_commit_that_postgresql_does_not_wait_for_is_found() -> None:
    if find_binaries() is None:
        pytest.skip("no PostgreSQL binaries on this machine: install Debian's postgresql")
    with own_postgres("wal_writer_delay=10s") as server:
        size = bounds(writes=60, faults=3)
        outcome = torture(
            server.new_database(), seed=3, bounds=size, only=["database restarts"], plant="fsync", server=server
        )
    assert "durable" in {violation.promise for violation in outcome.violations}


def test_a_running_service_is_only_used(tmp_path: Path) -> None:
    with Server(str(tmp_path / "c.sqlite")) as server:
        outcome = torture_running([server.url], seed=1, bounds=bounds(writes=40, faults=0), api_key=None)
    assert outcome.violations == []
    assert outcome.counts["acknowledged"] > 10 and "kills" not in outcome.counts


def test_the_same_seed_makes_the_same_requests() -> None:
    def requests(seed: int) -> list[Request]:
        clients = Clients(["http://127.0.0.1:1"], seed=seed, bounds=bounds(writes=1, faults=0))
        clients.prefix = "p"
        return [clients._request("turn", "c", random.Random(f"{seed} {n}")) for n in range(20)]

    assert requests(1) == requests(1) != requests(2)
