# SPDX-License-Identifier: BSD-3-Clause
"""A guest: a small virtual machine with NICs and devices that have memory, for peer-to-peer DMA.

    with Guest.up(Machine(devices=("ivshmem", "nvme"), iommu=True), "mine") as guest:
        guest.run("bind uio_pci_generic 0000:00:03.0")
        with guest.wire(0) as left, guest.wire(1) as right:
            left.send(frame)

kernel.py and initramfs.py make the boot files, machine.py is QEMU's command line, init.sh runs in
the guest, wire.py is the other end of a NIC. pair.py joins two guests to a cluster, in which mpirun
and all other programs are the host's (host.sh). QEMU has a tag in its environment, like the
processes of a lab, so that it can always be found.
"""

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .. import process
from ..called import install_deps
from ..checkout import CHECKOUT_ID, STATE_DIR, digest, private_dir
from ..errors import HikyakuError
from ..lab import check_name
from ..lock import locked_directory
from ..own import remove_dead, write_maker
from . import initramfs, kernel
from .machine import DEVICES, NIC_MODELS, NICS, Machine, command
from .wire import Wire

__all__ = [
    "DEVICES",
    "NICS",
    "NIC_MODELS",
    "Background",
    "Guest",
    "Machine",
    "Wire",
    "all_names",
    "down",
    "down_dead",
]

BOOT_SECONDS = 90  # it takes 4 on an idle machine
DISK_MB = 16


def _tag(name: str) -> str:
    return f"HIKYAKU_GUEST={CHECKOUT_ID}{digest(name, 6)}"


def _directory(name: str) -> Path:
    """The directory of the guest.

    It is short, since paths of sockets have at most 107 characters.
    """
    return STATE_DIR / "g" / digest(name, 6)


def _processes(name: str) -> list[int]:
    return process.find(tag=_tag(name))


@contextmanager
def _locked() -> Iterator[None]:
    what = "another 'hikyaku lab guest up' or 'down' to end"
    with locked_directory(STATE_DIR, what, private_dir):
        try:
            yield
        finally:
            for empty in (STATE_DIR / "g", STATE_DIR):
                with suppress(OSError):  # not empty: others are up
                    empty.rmdir()


class Guest:
    """A guest that is up. Make one by up(), or find one by find()."""

    def __init__(self, name: str, machine: Machine):
        self.name = name
        self.machine = machine
        self.directory = _directory(name)

    # ---- life ---------------------------------------------------------------------------------

    @classmethod
    def up(
        cls, machine: Machine, name: str = "default", programs: list[Path] | None = None
    ) -> "Guest":
        """Boots @machine; returns when it takes commands. @programs: more to have in its /bin."""
        check_name(name)
        check(machine)
        if shutil.which("qemu-system-x86_64") is None:
            raise HikyakuError(
                "qemu-system-x86_64 is not installed, and the guest runs in it",
                install_deps(),
            )
        boot = kernel.get()
        archive = initramfs.make(boot, programs or [])
        with _locked():
            if _directory(name).exists():
                raise HikyakuError(
                    f"guest '{name}' is up already, or something is left of it",
                    f"hikyaku lab guest down --lab {name}",
                )
            guest = cls(name, machine)
            guest._write()
        # Booting takes long on a busy machine, and labs and other guests need not wait for it.
        try:
            guest._start(command(machine, boot, guest.directory), archive)
        except BaseException as failure:
            said = (guest.qemu_log() + guest.serial_log())[-1500:]
            down(name)
            if isinstance(failure, HikyakuError) and said.strip():
                raise HikyakuError(f"{failure}; QEMU and its console said:\n{said}") from None
            raise
        return guest

    @classmethod
    def find(cls, name: str = "default") -> "Guest":
        check_name(name)
        try:
            data = json.loads((_directory(name) / "guest.json").read_text())
            guest = cls(name, Machine.from_json(data["machine"]))
        except FileNotFoundError:
            raise HikyakuError(
                f"guest '{name}' is not up", f"hikyaku lab guest up --lab {name}"
            ) from None
        except (ValueError, KeyError, TypeError) as bad:
            raise HikyakuError(
                f"the state of guest '{name}' is damaged: {bad}",
                f"hikyaku lab guest down --lab {name}",
            ) from None
        if not _processes(name):
            raise HikyakuError(
                f"guest '{name}' has ended; its console: {guest.directory}/serial.log",
                f"hikyaku lab guest down --lab {name}",
            )
        return guest

    def __enter__(self) -> "Guest":
        return self

    def __exit__(self, *_: object) -> None:
        down(self.name)

    def _write(self) -> None:
        """Writes the files by which the guest is found; the first things that it has."""
        private_dir(self.directory)
        write_maker(self.directory)
        state = {"schema": 1, "name": self.name, "machine": self.machine.to_json()}
        (self.directory / "guest.json").write_text(json.dumps(state, indent=1) + "\n")

    def _start(self, argv: list[str], archive: bytes) -> None:
        (self.directory / "initramfs").write_bytes(archive)
        with (self.directory / "disk").open("wb") as disk:
            disk.truncate(DISK_MB << 20)
        key, _, value = _tag(self.name).partition("=")
        log = (self.directory / "qemu.log").open("wb")
        with log:
            qemu = subprocess.Popen(
                argv,
                env={**os.environ, key: value},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.directory,
            )

        def ready() -> bool:
            if qemu.poll() is not None:
                raise HikyakuError(f"QEMU ended with status {qemu.returncode}")
            return (self.directory / "agent").exists()

        process.wait_until("QEMU to open its sockets", ready, 30)
        with self._agent() as agent:
            _read_until(agent, b"@ready 0\n", BOOT_SECONDS, "the guest to boot")
        (self.directory / "initramfs").unlink()  # QEMU has read it

    # ---- use ----------------------------------------------------------------------------------

    @contextmanager
    def _agent(self) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:

            def listens() -> bool:
                """Its file is there a moment before it listens."""
                with suppress(ConnectionRefusedError, FileNotFoundError):
                    agent.connect(str(self.directory / "agent"))
                    return True
                return False

            process.wait_until(f"guest '{self.name}' to listen", listens, 10)
            yield agent

    def exec(self, text: str, timeout: float = 60) -> tuple[int, str]:
        """Runs shell text in the guest; returns its status and its output, both streams merged.
        After @timeout seconds it is killed there. Commands run one at a time; start a longer one by
        `… &` with its output in a file.
        """
        ident = uuid.uuid4().hex[:12]
        line = f"{ident} {max(1, int(timeout))} {base64.b64encode(text.encode()).decode()}\n"
        what = f"another command in guest '{self.name}' to end"
        with locked_directory(self.directory, what, timeout=timeout + 60), self._agent() as agent:
            agent.sendall(line.encode())
            said = _read_until(
                agent, re.compile(rb"\n@%s (\d+)\n" % ident.encode()), timeout + 30, text
            )
        body, status = said
        return status, body.decode(errors="replace")

    def run(self, text: str, timeout: float = 60) -> str:
        """Runs shell text in the guest; returns its output. A status other than 0 is an error."""
        status, said = self.exec(text, timeout)
        if status:
            raise HikyakuError(f"'{text}' ended with {status} in the guest: {said.strip()[-2000:]}")
        return said

    def start(self, command: str) -> "Background":
        """Starts @command in the background; returns when it has printed a line that begins with
        "ready"."""
        # a file of its own: what an earlier one said must not be taken for this one's
        out = f"/tmp/out.{uuid.uuid4().hex[:12]}"
        pid = self.run(
            f"{command} > {out} 2>&1 &\n"
            f"pid=$!; while ! grep -qs ^ready {out}; do\n"
            f"  kill -0 $pid 2>/dev/null || {{ cat {out}; exit 1; }}; sleep 0.05; done; echo $pid"
        )
        return Background(self, int(pid), out)

    def wire(self, nic: int) -> Wire:
        """The other end of NIC @nic. One at a time has it."""
        return Wire(self.directory / f"nic{nic}.in", self.directory / f"nic{nic}.out")

    def join(self, nic: int, other: "Guest", its: int) -> None:
        """Joins NIC @nic to NIC @its of @other by a cable."""
        for at, mine, to, theirs in ((self, nic, other, its), (other, its, self, nic)):
            (at.directory / f"nic{mine}.out").symlink_to(to.directory / f"nic{theirs}.in")

    def bar(self) -> bytes:
        """The content of the ivshmem device's memory."""
        return (self.directory / "ivshmem").read_bytes()

    def disk(self) -> Path:
        """The file with the NVMe device's blocks."""
        return self.directory / "disk"

    def serial_log(self) -> str:
        with suppress(OSError):
            return (self.directory / "serial.log").read_text(errors="replace")
        return ""

    def qemu_log(self) -> str:
        with suppress(OSError):
            return (self.directory / "qemu.log").read_text(errors="replace")
        return ""


@dataclass(frozen=True)
class Background:
    """A background command in a guest, made by Guest.start()."""

    guest: Guest
    pid: int
    out: str  # the guest's file that it writes to

    def end(self, *, stop: bool = False) -> str:
        """Waits until it has ended, and returns its output. @stop: ends it."""
        return self.guest.run(
            f"{f'kill {self.pid}' if stop else ':'}\n"
            f"while kill -0 {self.pid} 2>/dev/null; do sleep 0.05; done\n"
            f"cat {self.out}; rm {self.out}"
        )


def _read_until(
    agent: socket.socket, end: bytes | re.Pattern[bytes], timeout: float, what: str
) -> tuple[bytes, int]:
    """The output before @end, and the status in @end, if it has one."""
    pattern = re.compile(re.escape(end)) if isinstance(end, bytes) else end
    said = b""
    limit = time.monotonic() + timeout
    while True:
        match = pattern.search(said, max(0, len(said) - 8192))
        if match:
            return said[: match.start()], int(match[1]) if match.groups() else 0
        left = limit - time.monotonic()
        if left <= 0:
            shown = said[-600:].decode(errors="replace")
            raise HikyakuError(f"waited {timeout:g} s in vain: {what}; it had said: {shown}")
        agent.settimeout(left)
        with suppress(TimeoutError):
            try:
                more = agent.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                raise HikyakuError(f"the guest ended while this was awaited: {what}")
            said += more


def check(machine: Machine) -> None:
    """Raises an error if such a guest cannot be built."""
    if machine.nics not in NICS:
        raise HikyakuError(f"{machine.nics} NICs: a guest has 2 or 4")
    for kind in machine.devices:
        if kind not in DEVICES:
            raise HikyakuError(f"there is no device '{kind}'", f"use one of: {', '.join(DEVICES)}")
    if len(set(machine.devices)) != len(machine.devices):
        raise HikyakuError("a device is named twice", "name each once")
    if machine.nic_model not in NIC_MODELS:
        raise HikyakuError(
            f"there is no NIC '{machine.nic_model}'", f"use one of: {', '.join(NIC_MODELS)}"
        )


def all_names() -> list[str]:
    """The guests of this checkout that have a directory, up or left over."""
    names = []
    base = STATE_DIR / "g"
    for path in sorted(base.iterdir()) if base.is_dir() else []:
        with suppress(OSError, ValueError, KeyError):
            names.append(json.loads((path / "guest.json").read_text())["name"])
    return names


def _remove(name: str) -> list[str]:
    gone = []
    if count := process.end_all(lambda: _processes(name)):
        gone.append(f"{count} processes")
    directory = _directory(name)
    if directory.exists():
        shutil.rmtree(directory)
        gone.append(f"directory {directory}")
    return gone


def down(name: str = "default") -> list[str]:
    """Ends the guest @name, or removes its leftovers; returns what was removed."""
    check_name(name)
    with _locked():
        return _remove(name)


def down_dead(prefix: str) -> None:
    """Ends guests that were named own_name(@prefix, …) by processes that were killed."""
    remove_dead(prefix, [(name, _directory(name)) for name in all_names()], down)
