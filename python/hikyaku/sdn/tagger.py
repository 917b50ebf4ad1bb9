# SPDX-License-Identifier: BSD-3-Clause
"""hk-tagger, which tags the TCP of a job (docs/tagger.md): its command line and its answers."""

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

# sdn/tagger/socket.h
_ASK = struct.Struct("=IHHII68s")  # magic, version, kind, rank, ranks, secret
_ANSWER = struct.Struct("=IiI244s")  # magic, status, slot, text
_MAGIC, _VERSION, _STATUS = 0x47544B48, 2, 2
_SOCKET = "tagger"
_ANSWER_S = 10.0
WAYS = ("auto", "tcx", "clsact")  # to attach to interfaces: sdn/tagger/attach.h


def tag_command(
    *,
    job: int | None = None,
    interfaces: Iterable[str] = (),
    restore: bool = False,
    measure: bool = False,
    registrar: str | None = None,
    attach: str | None = None,
) -> list[str]:
    """The command before `mpirun …` that tags its TCP. @measure: measure the programs' time.
    @registrar: its address. @attach: one of WAYS."""
    if job is not None and not 1 <= job < JOBS:
        raise HikyakuError(f"job {job}: the numbers of jobs are 1 to {JOBS - 1}")
    words = process.option_words(
        library=built("systems/sdn/tagger/libhk_tag.so"),
        job=job,
        iface=list(interfaces),
        attach=attach,
        restore=restore,
        measure=measure,
        registrar=registrar,
    )
    return [str(built("systems/sdn/tagger/hk-tagger")), *words, "--"]


def _ask(path: Path) -> dict | None:
    """The status of the job with the socket @path; None if the job has just ended."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(_ANSWER_S)
        try:
            sock.connect(str(path))
            sock.send(_ASK.pack(_MAGIC, _VERSION, _STATUS, 0, 0, b""))
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
    """The tagged jobs on this node. @base: the directory of run directories (hostd/rundir.h)."""
    found = [_ask(path) for path in sorted(base.glob(f"tag-*/{_SOCKET}"))]
    return sorted((job for job in found if job), key=lambda job: job["job"])


def check() -> dict:
    """How this node attaches programs ("attach"), and the filters of killed taggers ("stale")."""
    return json.loads(process.run([str(built("systems/sdn/tagger/hk-tagger")), "--check"]))


def stale_text(filters: list[dict]) -> str:
    """The text for @filters, the non-empty "stale" of check()."""
    places = ", ".join(f"{f['interface']} {f['direction']} (job {f['job']})" for f in filters)
    return f"filters of hk-taggers that were killed, which do nothing any more: {places}"


STALE_FIX = "hikyaku tag run -- true   # as any next job does"
