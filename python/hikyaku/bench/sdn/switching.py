# SPDX-License-Identifier: BSD-3-Clause
"""Switches the tagger's programs off and on under a running job.

mpi_bench --switch times both states within milliseconds, since the speed of the machine changes
from one second to the next. When a program is off, its place in the link (tcx) has a program that
does nothing. The state of sockets and the library that reports the MPI function are active in both.
"""

import ctypes
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...called import install_deps
from ...errors import HikyakuError

ON, OFF = "a", "b"
_SCHED_CLS = 3  # enum bpf_prog_type
# r0 = -1 (the next program has its say); exit
_NOTHING = bytes.fromhex("b7000000ffffffff 9500000000000000".replace(" ", ""))


def _libbpf() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise HikyakuError("libbpf.so.1 is not installed", install_deps()) from None


def _good(fd: int, what: str) -> int:
    if fd < 0:
        raise HikyakuError(f"cannot {what}: {os.strerror(-fd)}", "run as root")
    return fd


def infos(directory: Path) -> Iterator[str]:
    """The kernel's information on each descriptor of a process, which may close some meanwhile."""
    for file in directory.iterdir():
        with suppress(FileNotFoundError):
            yield file.read_text()


class Programs:
    """The programs that the processes @pids have attached by tcx. They are on again at the end."""

    def __init__(self, pids: list[int]):
        self._bpf = _libbpf()
        self._links: list[tuple[int, int]] = []  # descriptors: of the link, of its program
        self._nothing = _good(
            self._bpf.bpf_prog_load(
                _SCHED_CLS, b"nothing", b"BSD", _NOTHING, len(_NOTHING) // 8, None
            ),
            "load an eBPF program",
        )
        for pid in pids:
            for info in infos(Path(f"/proc/{pid}/fdinfo")):
                self._take(info)
        if not self._links:
            raise HikyakuError(
                "no program of the tagger is attached by tcx",
                "measure on Linux 6.6 or newer",
            )

    def _take(self, info: str) -> None:
        found = dict(re.findall(r"^(link_type|link_id|prog_id):\s*(\w+)", info, re.M))
        if found.get("link_type") != "tcx":
            return
        link = self._bpf.bpf_link_get_fd_by_id(int(found["link_id"]))
        program = self._bpf.bpf_prog_get_fd_by_id(int(found["prog_id"]))
        self._links.append((_good(link, "open a link"), _good(program, "open a program")))

    def set(self, *, on: bool) -> None:
        for link, program in self._links:
            rc = self._bpf.bpf_link_update(link, program if on else self._nothing, None)
            _good(rc, "replace a program")

    def __enter__(self) -> "Programs":
        return self

    def __exit__(self, *_: object) -> None:
        self.set(on=True)
        for fd in (self._nothing, *(fd for pair in self._links for fd in pair)):
            os.close(fd)


@contextmanager
def listening(path: Path, holders: Callable[[], list[int]]) -> Iterator[None]:
    """Answers an mpi_bench --switch that connects to @path. @holders: returns the processes that
    hold the programs of its job. Errors are raised at the end."""
    failed: list[Exception] = []
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(1)

    def serve() -> None:
        try:
            connection, _ = server.accept()
        except OSError:
            return  # nobody came
        try:
            with connection, Programs(holders()) as programs:
                while side := connection.recv(1):
                    programs.set(on=side == ON.encode())
                    connection.sendall(side)
        except (OSError, HikyakuError) as error:
            failed.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
        path.unlink()
    if failed:
        raise HikyakuError(f"switching the tagger's programs: {failed[0]}")
