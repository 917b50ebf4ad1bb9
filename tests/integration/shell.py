# SPDX-License-Identifier: BSD-3-Clause
"""A user's shell, into which a test types commands, and reads what they print."""

import os
import selectors
import subprocess
import time
from pathlib import Path

_END = b"\n--- typed: "


class Shell:
    """A shell that runs until the end of the block. @enter: the command line that starts it with
    other rights, or in another place."""

    def __init__(self, *enter: str | Path, directory: Path):
        self._child = subprocess.Popen(
            [*enter, "sh"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        os.set_blocking(self._child.stdout.fileno(), False)

    def __enter__(self) -> "Shell":
        return self

    def __exit__(self, *_: object) -> None:
        self._child.stdin.close()
        self._child.stdout.close()
        self._child.terminate()
        self._child.wait()

    @property
    def pid(self) -> int:
        return self._child.pid

    def type(self, command: str, limit: float = 60) -> tuple[int, str]:
        """Types @command as it is, and returns its exit status and all that it prints."""
        # the group, not the shell, has no input: mpirun would read our next line
        typed = f"{{ {command}\n}} </dev/null\nprintf '\\n--- typed: %d\\n' $?\n"
        self._child.stdin.write(typed.encode())
        self._child.stdin.flush()
        said = b""
        until = time.monotonic() + limit
        with selectors.DefaultSelector() as ready:
            ready.register(self._child.stdout, selectors.EVENT_READ)
            while _END not in said or not said.endswith(b"\n"):
                assert ready.select(until - time.monotonic()), f"'{command}' hangs: {said.decode()}"
                piece = os.read(self._child.stdout.fileno(), 65536)
                assert piece, f"the shell ended at '{command}': {said.decode()}"
                said += piece
        text, _, status = said.rpartition(_END)
        return int(status), text.decode()
