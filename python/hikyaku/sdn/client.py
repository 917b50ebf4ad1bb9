# SPDX-License-Identifier: BSD-3-Clause
"""Asks a controller on this machine, found by its directory."""

import json
import urllib.error
import urllib.request
from pathlib import Path

from ..errors import HikyakuError
from .store import Store

LIMIT = 30.0


class Client:
    def __init__(self, directory: Path):
        store = Store(directory) if directory.is_dir() else None
        found = store.address() if store else None
        if not found:
            raise HikyakuError(f"no controller runs with {directory}", "hikyaku sdn run")
        self.address = found
        self._token = store.token()

    def _call(self, method: str, path: str, data: object | None = None) -> object:
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(self.address + path, data=body, method=method)
        request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as refused:
            said = refused.read().decode(errors="replace").strip()
            raise HikyakuError(f"the controller refused {method} {path}: {said}") from None
        except (OSError, ValueError) as bad:
            raise HikyakuError(
                f"the controller at {self.address} does not answer: {bad}", "hikyaku sdn run"
            ) from None

    def get(self, path: str) -> object:
        return self._call("GET", path)

    def post(self, path: str, data: object) -> object:
        return self._call("POST", path, data)

    def put(self, path: str, data: object) -> object:
        return self._call("PUT", path, data)

    def delete(self, path: str) -> object:
        return self._call("DELETE", path)
