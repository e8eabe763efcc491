"""What breaks a service while it is used: `Replica`, a service to be killed and paused, and `Nemesis`, the faults.

A fault begins, lasts for some calls of the clients (or a few seconds, if nobody makes progress), and is healed. Which
faults there are depends on the database. Clients and their calls are in `torture.py`.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from disk import cut_power
from postgres import PostgresServer
from processes import SCRIPTED, Service

from somdst.errors import SomdstError

DAY = 24 * 3600.0
RETENTION = 30 * DAY

Wait = Callable[[int], None]
"""Returns after so many more calls, or after a few seconds."""


class TortureError(SomdstError):
    """The torture itself could not go on."""


class Replica(Service):
    """A service that a parent process starts again whenever it is killed. The parent keeps the port open."""

    def __init__(self, database: str, clock: Path, *options: str) -> None:
        self.clock = clock
        """A file with the seconds that its clock is ahead."""
        self.ahead = 0.0
        limits = ["--retention-seconds", str(RETENTION), "--turn-timeout", "30", "--body-timeout", "30"]
        super().__init__(SCRIPTED, database, "--reborn", "--clock", str(clock), *limits, *options)

    @property
    def pid(self) -> int:
        return self.child

    def launch(self) -> None:
        super().launch()
        self.child = self._next_child()

    def _next_child(self) -> int:
        assert self.process is not None and self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise TortureError(f"A replica ended: {self._end()}")
        return int(line)

    def kill(self) -> None:
        os.kill(self.child, signal.SIGKILL)
        self.child = self._next_child()

    def pause(self) -> None:
        os.kill(self.child, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.child, signal.SIGCONT)

    def kill_and_stay(self) -> None:
        """It is not started again until `come_back`."""
        os.kill(super().pid, signal.SIGSTOP)
        _until_state(super().pid, "T")  # else it may still bury its child
        os.kill(self.child, signal.SIGKILL)
        _until_state(self.child, "Z")  # then it has no file open any more

    def come_back(self) -> None:
        os.kill(super().pid, signal.SIGCONT)
        self.child = self._next_child()

    def set_clock(self, ahead: float) -> None:
        new = self.clock.with_suffix(".new")
        new.write_text(str(ahead))
        new.replace(self.clock)
        self.ahead = ahead

    def handles(self) -> int:
        """Open files and connections."""
        return len(os.listdir(f"/proc/{self.child}/fd"))  # noqa: PTH208


def _until_state(pid: int, state: str) -> None:
    """Wait until a process is stopped (T) or a zombie (Z)."""
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
        time.sleep(0.005)


def start_replicas(number: int, database: str, folder: Path, *options: str) -> list[Replica]:
    """All at the same time, each with a clock of its own."""
    replicas = [Replica(database, folder / f"clock-{one}", *options) for one in range(number)]
    for replica in replicas:
        replica.launch()
    for replica in replicas:
        replica.wait()
    return replicas


class Nemesis:
    def __init__(
        self, replicas: Sequence[Replica], database: str, folder: Path, *, server: PostgresServer | None = None
    ) -> None:
        self.replicas, self.database, self.folder, self.server = replicas, database, folder, server
        self.counts: Counter[str] = Counter()

    @property
    def slowest_clock(self) -> float:
        """Seconds that it is ahead."""
        return min(replica.ahead for replica in self.replicas)

    @property
    def faults(self) -> dict[str, Callable[[random.Random, Wait], None]]:
        common = {"kills": self.kill, "kills of all": self.kill_all, "pauses": self.pause, "clock jumps": self.jump}
        if "://" not in self.database:
            return {**common, "power cuts": self.cut_power, "full disks": self.fill, "slow disks": self.slow}
        own = {"database restarts": self.restart, "database pauses": self.pause_database} if self.server else {}
        return {**common, **own, "dropped connections": self.drop}

    def do(self, name: str, chance: random.Random, wait: Wait) -> None:
        self.counts[name] += 1
        self.faults[name](chance, wait)

    # Processes

    def kill(self, chance: random.Random, wait: Wait) -> None:
        chance.choice(self.replicas).kill()
        wait(3)

    def kill_all(self, chance: random.Random, wait: Wait) -> None:
        for replica in self.replicas:
            replica.kill()
        wait(3)

    def pause(self, chance: random.Random, wait: Wait) -> None:
        """A writer that sleeps in the middle of its work, and goes on after the others did."""
        replica = chance.choice(self.replicas)
        replica.pause()
        wait(chance.randint(3, 20))
        if chance.random() < 0.2:
            replica.kill()  # killed in its sleep
        else:
            replica.resume()

    def jump(self, chance: random.Random, wait: Wait) -> None:
        """All clocks, each by its own amount: the replicas do not agree on the time."""
        for replica in self.replicas:
            replica.set_clock(chance.uniform(-DAY, DAY))

    # SQLite

    def cut_power(self, chance: random.Random, wait: Wait) -> None:
        for replica in self.replicas:
            replica.kill_and_stay()
        cut_power(Path(self.database), self.folder)
        for replica in self.replicas:
            replica.come_back()
        wait(3)

    def fill(self, chance: random.Random, wait: Wait) -> None:
        (self.folder / "full").touch()
        wait(chance.randint(3, 20))
        (self.folder / "full").unlink()

    def slow(self, chance: random.Random, wait: Wait) -> None:
        (self.folder / "slow").write_text(str(chance.uniform(0.01, 0.2)))
        wait(chance.randint(3, 20))
        (self.folder / "slow").unlink()

    # PostgreSQL

    def restart(self, chance: random.Random, wait: Wait) -> None:
        assert self.server is not None
        self.server.stop(mode="immediate")
        self.server.start()
        wait(3)

    def drop(self, chance: random.Random, wait: Wait) -> None:
        self._backends("SELECT pg_terminate_backend(pid) FROM pg_stat_activity")
        wait(3)

    def pause_database(self, chance: random.Random, wait: Wait) -> None:
        """PostgreSQL's answer to a disk that does not answer: all that is under way stands still."""
        pids = self._backends("SELECT pid FROM pg_stat_activity")
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        wait(chance.randint(3, 20))
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _backends(self, query: str) -> list[int]:
        import psycopg

        with psycopg.connect(self.database, autocommit=True) as connection:
            mine = " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            return [row[0] for row in connection.execute((query + mine).encode()).fetchall()]
