"""The torture itself: short runs with fixed seeds find nothing, and with a bug planted into the store they find it.

Runs are bounded by counts. How calls and faults fall together is up to the machine; the verdict is not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from clients import Bounds, Clients, Request
from planted import PLANTS
from postgres import PostgresServer, find_binaries, own_postgres
from services import Server
from torture import HUNT, hunt, torture, torture_running

FOREVER = 1e6
"""Seconds: only the counts are bounds here."""


def bounds(*, writes: int, faults: int, conversations: int = 3, writers: int = 4) -> Bounds:
    return Bounds(writers=writers, writes=writes, faults=faults, conversations=conversations, seconds=FOREVER)


def assert_kept(counts: dict[str, int], faults: Sequence[str]) -> None:
    for name in ("acknowledged", "repeated", "reused keys refused", "without an answer", "reads", "erased", "entries"):
        assert counts[name] > 0, name
    assert {name: counts[name] for name in faults} == dict.fromkeys(faults, 2)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One that keeps what was not synced in its memory for long."""
    if find_binaries() is None:
        pytest.skip("no PostgreSQL binaries on this machine: install Debian's postgresql")
    with own_postgres("wal_writer_delay=10s") as server:
        yield server


@pytest.mark.slow
def test_the_contract_on_sqlite(tmp_path: Path) -> None:
    outcome = torture(str(tmp_path / "c.sqlite"), seed=1, bounds=bounds(writes=200, faults=14))
    assert outcome.violations == []
    assert_kept(
        outcome.counts,
        ["kills", "kills of all", "pauses", "clock jumps", "power cuts", "full disks", "slow disks"],
    )


@pytest.mark.slow
def test_the_contract_on_postgresql(server: PostgresServer) -> None:
    outcome = torture(server.new_database(), seed=1, bounds=bounds(writes=200, faults=14), server=server)
    assert outcome.violations == []
    faults = ["kills", "kills of all", "pauses", "clock jumps", "database restarts", "database pauses"]
    assert_kept(outcome.counts, [*faults, "dropped connections"])


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(tmp_path: Path, plant: str) -> None:
    outcome = hunt(plant, str(tmp_path / "c.sqlite"), seed=2, bounds=replace(HUNT, seconds=FOREVER))
    assert PLANTS[plant].breaks & {violation.promise for violation in outcome.violations}, outcome


@pytest.mark.slow
@pytest.mark.parametrize("plant", [name for name, plant in PLANTS.items() if plant.portable])
def test_a_planted_bug_is_found_on_postgresql(server: PostgresServer, plant: str) -> None:
    outcome = hunt(plant, server.new_database(), seed=2, bounds=replace(HUNT, seconds=FOREVER), server=server)
    assert PLANTS[plant].breaks & {violation.promise for violation in outcome.violations}, outcome


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
