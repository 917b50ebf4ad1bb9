# SPDX-License-Identifier: BSD-3-Clause
"""Asks a controller on this machine, found by its directory."""

import json
import ssl
import time
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import HikyakuError
from .store import Store

LIMIT = 30.0
_AGAIN_S = 0.1


class Unreachable(HikyakuError):
    """The request has not reached the controller."""


class Refused(HikyakuError):
    def __init__(self, text: str, status: int):
        super().__init__(text)
        self.status = status


def _error(said: bytes) -> str:
    try:
        return str(json.loads(said)["error"])
    except (ValueError, KeyError, TypeError):
        return said.decode(errors="replace").strip()


class Client:
    """@retry_s: seconds for which to retry while no controller answers. @start: the command that
    starts the controller of @directory, for errors."""

    def __init__(
        self, directory: Path, retry_s: float = 0.0, start: str = "hikyaku sdn run --background"
    ):
        self.directory = directory
        self._retry_s = retry_s
        self._start = start
        self.address, self._token = self._find()

    def _find(self) -> tuple[str, str]:
        """The address and the token of a running controller. Of a killed one, another user may have
        the port, and would see the token."""
        store = Store(self.directory) if self.directory.is_dir() else None
        found = store.address() if store and store.is_owned() else None
        if not found:
            raise Unreachable(f"no controller runs with {self.directory}", self._start)
        return found, store.token()

    def _call(self, method: str, path: str, data: object | None = None) -> object:
        until = time.monotonic() + self._retry_s
        while True:
            try:
                return self._once(method, path, None if data is None else json.dumps(data).encode())
            except Unreachable:
                if time.monotonic() >= until:
                    raise
                time.sleep(_AGAIN_S)

    def _once(self, method: str, path: str, body: bytes | None) -> object:
        import http.client

        self.address, self._token = self._find()
        url = urlsplit(self.address)
        # http.client uses no proxy and follows no redirection
        if url.scheme == "https":
            connection = http.client.HTTPSConnection(
                url.hostname, url.port, timeout=LIMIT, context=self._tls()
            )
        else:
            connection = http.client.HTTPConnection(url.hostname, url.port, timeout=LIMIT)
        try:
            try:
                connection.connect()
            except OSError as bad:
                raise self._silent(bad) from None
            if self._find()[0] != self.address:
                raise self._silent("another controller has started")
            headers = {"Authorization": f"Bearer {self._token}"}
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                said = answer.read()
                if answer.status < 300:
                    return json.loads(said)
            except (OSError, ValueError, http.client.HTTPException) as bad:
                again = method != "POST"  # the controller may have acted on it
                raise self._silent(bad, Unreachable if again else HikyakuError) from None
        finally:
            connection.close()
        raise Refused(f"the controller refused {method} {path}: {_error(said)}", answer.status)

    def _tls(self) -> ssl.SSLContext:
        """Accepts the certificate in the controller's directory, and no other one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(Store(self.directory).certificate)
        except OSError as bad:
            raise self._silent(bad) from None
        return context

    def _silent(self, why: object, kind: type[HikyakuError] = Unreachable) -> HikyakuError:
        fix = self._start
        if pid := Store(self.directory).owner():  # it runs, and is busy or stopped
            fix = f"see what process {pid} does: top -b -n 1 -p {pid}"
        return kind(f"the controller at {self.address} does not answer: {why}", fix)

    def get(self, path: str) -> object:
        return self._call("GET", path)

    def post(self, path: str, data: object) -> object:
        return self._call("POST", path, data)

    def put(self, path: str, data: object) -> object:
        return self._call("PUT", path, data)

    def delete(self, path: str) -> object:
        return self._call("DELETE", path)
