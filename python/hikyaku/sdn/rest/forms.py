# SPDX-License-Identifier: BSD-3-Clause
"""The JSON bodies and numbers that the calls accept; errors name the value and its limits."""

from typing import Annotated, TypeVar

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, TypeAdapter
from pydantic import ValidationError as Invalid

from ..rules import MULTICAST
from ..tag import JOBS, RANKS, from_mac, in_prefix, to_mac

MAX_NAME = 64
LEASES = (10, 86400)  # seconds

T = TypeVar("T")


class Refused(Exception):
    """A request that the controller refuses; becomes {"error": text} with @status."""

    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status = status


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("use printable characters only")
    return text


def _address(text: str) -> int:
    mac = from_mac(text)
    if in_prefix(to_mac(mac)) or mac & MULTICAST or mac == 0:
        raise ValueError(f"{to_mac(mac)} cannot be a rank's own address")
    return mac


Rank = Annotated[int, Field(ge=0, lt=RANKS)]
Address = Annotated[str, AfterValidator(_address)]
Ranks = Annotated[dict[Rank, Address], Field(max_length=RANKS)]
Members = Annotated[frozenset[Annotated[StrictInt, Field(ge=0, lt=RANKS)]], Field(max_length=RANKS)]
Lease = Annotated[StrictInt, Field(ge=LEASES[0], le=LEASES[1])]


class NewJob(BaseModel):
    """The body of POST /v1/jobs."""

    model_config = ConfigDict(extra="forbid")

    job: Annotated[StrictInt, Field(ge=1, lt=JOBS)] | None = None
    name: Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_printable)] = ""
    ranks: Ranks = {}
    groups: Annotated[dict[Rank, Members], Field(max_length=RANKS)] = {}
    lease: Lease | None = None


NEW_JOB, RANKS_BODY, MEMBERS, LEASE = map(TypeAdapter, (NewJob, Ranks, Members, Lease))
_RANK = TypeAdapter(Rank)


def _explained(invalid: Invalid, what: str) -> Refused:
    """The first error of @invalid: where it is in @what, and the reason."""
    error = invalid.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part)[:40] for part in error["loc"] if part != "[key]")
    return Refused(400, f"{place or what}: {error['msg'].removeprefix('Value error, ')}")


async def body(request: web.Request, form: TypeAdapter[T]) -> T:
    """The body of @request as @form."""
    try:
        return form.validate_json(await request.read() or b"{}")
    except Invalid as invalid:
        raise _explained(invalid, "the body") from None


def rank(text: str, what: str) -> int:
    """A rank or a group in a path or a query."""
    try:
        return _RANK.validate_python(text)
    except Invalid as invalid:
        raise _explained(invalid, what) from None
