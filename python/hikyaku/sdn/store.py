# SPDX-License-Identifier: BSD-3-Clause
"""The directory of a controller: its keys, and the state that switches cannot give its successor.

token       a request that changes something must show it (REST)
lldp.key    the key of the probes
datapaths   with TLS: the certificate that each switch showed first
state.json  jobs, hosts and links
rest.pem    the certificate of REST, if that has TLS
address     the address of REST, while the controller runs
lock        locked by the controller that runs; contains its process id
"""

import contextlib
import json
import os
import secrets
import shlex
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import record_lock
from ..checkout import private_dir
from ..errors import HikyakuError
from .network import Job, Port
from .tag import from_mac, to_mac


class Store:
    def __init__(self, directory: Path):
        self.directory = directory
        self._saving = threading.Lock()
        try:
            private_dir(directory)
        except OSError as bad:
            raise HikyakuError(
                f"the controller's directory {directory} cannot be made: {bad.strerror}",
                "name another one by --state",
            ) from None

    def _secret(self, name: str) -> str:
        path = self.directory / name
        if not path.exists():
            self._write(name, secrets.token_hex(32))
        return path.read_text().strip()

    def _write(self, name: str, text: str) -> None:
        """Writes the file completely or not at all, even if power fails; only its owner can read
        it."""
        path = self.directory / (name + ".new")
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        path.rename(self.directory / name)
        fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def owned(self) -> Iterator[None]:
        """Holds the directory for a running controller. Removes the address that a killed one has
        left, and ours at the end."""
        with (self.directory / "lock").open("a+") as lock:
            if not record_lock.take(lock.fileno()):
                raise HikyakuError(
                    f"another controller, process {self.owner()}, runs with {self.directory}",
                    f"hikyaku sdn stop --state {shlex.quote(str(self.directory))}",
                )
            self.set_address(None)
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            try:
                yield
            finally:
                self.set_address(None)

    def is_owned(self) -> bool:
        """Does a controller run with it?"""
        return record_lock.is_held(self.directory / "lock")

    def owner(self) -> int | None:
        """The process of the controller that runs with it."""
        if not self.is_owned():
            return None
        text = (self.directory / "lock").read_text().strip()
        return int(text) if text.isdigit() else None

    def token(self) -> str:
        return self._secret("token")

    def key(self) -> bytes:
        return bytes.fromhex(self._secret("lldp.key"))

    def set_address(self, address: str | None) -> None:
        if address is None:
            (self.directory / "address").unlink(missing_ok=True)
        else:
            self._write("address", address)

    def set_certificate(self, text: str | None) -> None:
        """Keeps the certificate by which clients on this machine recognise REST."""
        if text is None:
            self.certificate.unlink(missing_ok=True)
        else:
            self._write(self.certificate.name, text)

    @property
    def certificate(self) -> Path:
        return self.directory / "rest.pem"

    def address(self) -> str | None:
        try:
            return (self.directory / "address").read_text().strip()
        except FileNotFoundError:
            return None

    def state_text(
        self,
        jobs: dict[int, Job],
        hosts: dict[int, Port],
        switches: Iterable[int],
        links: dict[Port, Port],
    ) -> str:
        """The content of state.json."""
        state = {
            "schema": 1,
            "jobs": [job_to_json(job) for job in jobs.values()],
            "switches": sorted(switches),
            "hosts": {to_mac(mac): list(at) for mac, at in sorted(hosts.items())},
            "links": sorted([*a, *b] for a, b in links.items() if a < b),
        }
        return json.dumps(state, indent=1)

    def save(self, text: str) -> None:
        """Writes state.json. Any thread may call it; it takes as long as the disk takes."""
        with self._saving:
            self._write("state.json", text)

    def load(self) -> tuple[dict[int, Job], dict[int, Port], set[int], dict[Port, Port]]:
        """Jobs, hosts, and which switches and links there were."""
        path = self.directory / "state.json"
        try:
            state = json.loads(path.read_text())
            jobs = [job_from_json(each) for each in state["jobs"]]
            switches = set(map(int, state["switches"]))
            hosts = {from_mac(mac): (int(s), int(p)) for mac, (s, p) in state["hosts"].items()}
            links = [tuple(map(int, each)) for each in state.get("links", [])]
            links = {(s, p): (t, q) for s, p, t, q in links if {s, t} <= switches and s != t}
        except FileNotFoundError:
            return {}, {}, set(), {}
        except (ValueError, KeyError, TypeError, AttributeError) as bad:
            raise HikyakuError(f"{path} is damaged: {bad}", f"rm {path}") from None
        links |= {b: a for a, b in links.items()}
        return {job.number: job for job in jobs}, hosts, switches, links


def job_to_json(job: Job) -> dict:
    lease = {} if job.lease is None else {"lease": job.lease}
    return {
        "job": job.number,
        "name": job.name,
        "ranks": {str(r): to_mac(mac) for r, mac in sorted(job.ranks.items())},
        "groups": {str(g): sorted(ranks) for g, ranks in sorted(job.groups.items())},
    } | lease


def job_from_json(data: dict) -> Job:
    return Job(
        int(data["job"]),
        str(data["name"]),
        {int(r): from_mac(mac) for r, mac in data["ranks"].items()},
        {int(g): frozenset(map(int, ranks)) for g, ranks in data["groups"].items()},
        int(data["lease"]) if "lease" in data else None,
    )
