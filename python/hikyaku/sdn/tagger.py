# SPDX-License-Identifier: BSD-3-Clause
"""hk-tagger, which tags the TCP of a job (docs/tagger.md): its command line, what it says."""

import array
import json
import os
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

from .. import process
from ..checkout import built
from ..errors import HikyakuError
from .tag import JOBS

# tagger/ask.h
_ASK = struct.Struct("=IHHII")  # magic, version, kind, rank, ranks
_ANSWER = struct.Struct("=IiI244s")  # magic, status, slot, text
_MAGIC, _VERSION, _STATUS = 0x47544B48, 1, 2
_SOCKET = "tagger"
_ANSWER_S = 10.0
WAYS = ("auto", "tcx", "clsact")  # to attach to interfaces: tagger/attach.h


def tag_command(
    *,
    job: int | None = None,
    interfaces: Iterable[str] = (),
    restore: bool = False,
    measure: bool = False,
    registrar: str | None = None,
    attach: str | None = None,
) -> list[str]:
    """What stands before `mpirun …` to have it tagged. @measure: how long the programs take;
    @registrar: its address; @attach: one of WAYS."""
    if job is not None and not 1 <= job < JOBS:
        raise HikyakuError(f"job {job}: the numbers of jobs are 1 to {JOBS - 1}")
    argv = [str(built("tagger/hk-tagger")), "--library", str(built("tagger/libhk_tag.so"))]
    if job is not None:
        argv += ["--job", str(job)]
    for name in interfaces:
        argv += ["--iface", name]
    argv += ["--attach", attach] if attach else []
    argv += ["--restore"] if restore else []
    argv += ["--measure"] if measure else []
    argv += ["--registrar", registrar] if registrar else []
    return [*argv, "--"]


def _ask(path: Path) -> dict | None:
    """The status of the job whose socket this is; None if it has just ended."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(_ANSWER_S)
        try:
            sock.connect(str(path))
            sock.send(_ASK.pack(_MAGIC, _VERSION, _STATUS, 0, 0))
            message, control, _, _ = sock.recvmsg(_ANSWER.size, socket.CMSG_SPACE(4))
        except TimeoutError:
            raise HikyakuError(
                f"hk-tagger at {path} did not answer within {_ANSWER_S:g} s"
            ) from None
        except OSError:
            return None
    fds = array.array("i")
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if not message:
        return None
    if len(message) != _ANSWER.size or _ANSWER.unpack(message)[0] != _MAGIC:
        raise HikyakuError(f"what listens at {path} is not hk-tagger")
    _, status, _, text = _ANSWER.unpack(message)
    if status or not fds:
        raise HikyakuError.said(text.split(b"\0")[0].decode(errors="replace"))
    with os.fdopen(fds[0], "rb") as file:
        return json.loads(file.read())


def jobs(base: Path) -> list[dict]:
    """Every job that is tagged on this node; @base is where run directories are (host/rundir.h)."""
    found = [_ask(path) for path in sorted(base.glob(f"tag-*/{_SOCKET}"))]
    return sorted((job for job in found if job), key=lambda job: job["job"])


def check() -> dict:
    """How programs are attached on this node ("attach"), and what killed holders have left of
    filters ("stale")."""
    return json.loads(process.run([str(built("tagger/hk-tagger")), "--check"]))


def stale_text(filters: list[dict]) -> str:
    """@filters: check()'s "stale", which are not none."""
    places = ", ".join(f"{f['interface']} {f['direction']} (job {f['job']})" for f in filters)
    return f"filters of hk-taggers that were killed, which do nothing any more: {places}"


STALE_FIX = "hikyaku tag run -- true   (any next job removes them)"
