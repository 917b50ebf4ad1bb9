# SPDX-License-Identifier: BSD-3-Clause
"""One switch's connection: OpenFlow 1.3 over asyncio, encoded and decoded by os-ken.

The length and version of every message are checked before it is parsed. A request has a time limit,
and its error names the switch. A silent switch is disconnected.
"""

import asyncio
import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from ..errors import HikyakuError
from .codec import DESC

_HEADER = struct.Struct("!BBHI")
_ELEMENT = struct.Struct("!HH")  # of a greeting: type, length
_FIX = "ovs-vsctl set bridge NAME protocols=OpenFlow13"
_NAMES = {version: f"1.{version - 1}" for version in range(1, 7)}
ANSWER_LIMIT = 10.0  # seconds
ECHO_EVERY = 5.0
SILENT_LIMIT = 15.0
MAX_WAITING = 64 << 20  # bytes not yet written to a switch that does not read
MAX_PARTS = 1024  # of one answer, of 64 KiB each
_ANSWERS = {
    parser.OFPBarrierRequest: parser.OFPBarrierReply,
    parser.OFPFeaturesRequest: parser.OFPSwitchFeatures,
    parser.OFPFlowStatsRequest: parser.OFPFlowStatsReply,
    parser.OFPGroupDescStatsRequest: parser.OFPGroupDescStatsReply,
    parser.OFPGroupFeaturesStatsRequest: parser.OFPGroupFeaturesStatsReply,
    parser.OFPPortDescStatsRequest: parser.OFPPortDescStatsReply,
    parser.OFPPortStatsRequest: parser.OFPPortStatsReply,
    parser.OFPRoleRequest: parser.OFPRoleReply,
}


class Gone(HikyakuError):
    """The switch has closed the connection, or violated the protocol."""


def versions(version: int, elements: bytes) -> set[int]:
    """The versions that a hello message offers: those of its bitmap, or without one all up to that
    of its header (OpenFlow 1.3.5, 6.3.1 and 7.5.1). Unknown and cut elements are ignored."""
    at = 0
    while at + _ELEMENT.size <= len(elements):
        kind, length = _ELEMENT.unpack_from(elements, at)
        if length < _ELEMENT.size or at + length > len(elements):
            break
        if kind == of.OFPHET_VERSIONBITMAP:
            bits = elements[at + _ELEMENT.size : at + length]
            words = struct.unpack(f"!{len(bits) // 4}I", bits[: len(bits) // 4 * 4])
            return {32 * i + b for i, word in enumerate(words) for b in range(32) if word >> b & 1}
        at += (length + 7) // 8 * 8
    return set(range(1, version + 1))


@dataclass
class _Request:
    message: parser.MsgBase
    answer: asyncio.Future
    parts: list = field(default_factory=list)


class Channel:
    """Messages to and from a switch. @tell: called with messages that answer no request."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        tell: Callable[["Channel", object], None],
    ):
        self._reader, self._writer, self._tell = reader, writer, tell
        self.transport = writer.transport
        self._xids = itertools.count(1)
        self._waiting: dict[int, _Request] = {}
        self._refusals: dict[int, parser.OFPErrorMsg | None] = {}
        self._ended = False
        self._last = 0.0
        peer = writer.get_extra_info("peername")
        self.name = f"switch at {peer[0]}" if peer else "switch"
        # Refuses a datapath id that this connection may not claim.
        self.check_claim: Callable[[int], None] = lambda _: None
        self.failed: str | None = None  # why we have closed it
        self.admitted = False  # its switch was taken over by it
        self.early: list = []  # ports that changed before the switch was taken over

    def send(self, message: parser.MsgBase) -> int:
        """Returns the transaction's number."""
        message.set_xid(next(self._xids) & 0xFFFF_FFFF)
        message.serialize()
        self._writer.write(message.buf)
        if self._writer.transport.get_write_buffer_size() > MAX_WAITING:
            self.abort(f"{self.name} does not read what it is sent: let go")
        return message.xid

    async def request(self, message: parser.MsgBase) -> list:
        """Sends @message, and returns all parts of the answer. An error message as the answer
        raises."""
        if self._ended:
            raise self._gone()
        xid = self.send(message)
        future = asyncio.get_running_loop().create_future()
        self._waiting[xid] = _Request(message, future)
        try:
            # Not asyncio.wait_for(): before Python 3.12 it returns the answer and drops the
            # cancellation if both come in one turn of the loop.
            async with asyncio.timeout(ANSWER_LIMIT):
                return await future
        except TimeoutError:
            what = type(message).__name__
            raise Gone(f"{self.name} did not answer {what} within {ANSWER_LIMIT:g} s") from None
        finally:
            self._waiting.pop(xid, None)

    async def barrier(self) -> None:
        """Waits until the switch has done all that was sent."""
        await self.request(parser.OFPBarrierRequest(DESC))

    async def refusal(self, message: parser.MsgBase) -> parser.OFPErrorMsg | None:
        """Sends @message, and returns the error that it got, if any."""
        xid = self.send(message)
        self._refusals[xid] = None
        try:
            await self.barrier()
            return self._refusals[xid]
        finally:
            del self._refusals[xid]

    def close(self) -> None:
        """Closes the connection. Buffered messages are still written, if the switch reads."""
        self._writer.close()
        asyncio.get_running_loop().call_later(ANSWER_LIMIT, self._writer.transport.abort)

    def abort(self, why: str) -> None:
        """Closes the connection at once. A switch that does not read would keep a connection that
        is only closed."""
        self.failed = self.failed or why
        self._writer.transport.abort()

    async def _read(self) -> object:
        head = await self._reader.readexactly(_HEADER.size)
        version, kind, length, xid = _HEADER.unpack(head)
        if length < _HEADER.size:
            raise Gone(f"{self.name} sent a message of {length} bytes")
        body = await self._reader.readexactly(length - _HEADER.size)
        self._last = asyncio.get_running_loop().time()
        if kind == of.OFPT_HELLO:
            self._check_versions(versions(version, body))
            return parser.OFPHello(DESC)
        if version != of.OFP_VERSION:
            raise self._stranger({version})
        try:
            return ofproto_parser.msg(DESC, version, kind, length, xid, head + body)
        except Exception as bad:
            what = f"a message of type {kind} that is broken: {bad!r}"
            raise Gone(f"{self.name} sent {what}") from None

    def _check_versions(self, offered: set[int]) -> None:
        """Checks the versions of the hello message, which always arrives. A later error of the
        switch is lost if it closes the connection first."""
        if of.OFP_VERSION in offered:
            return
        gone = self._stranger(offered)
        self.send(
            parser.OFPErrorMsg(
                DESC,
                of.OFPET_HELLO_FAILED,
                of.OFPHFC_INCOMPATIBLE,
                b"only OpenFlow 1.3 is spoken here",
            )
        )
        raise gone

    def _stranger(self, offered: set[int]) -> Gone:
        spoken = ", ".join(_NAMES.get(v, f"of version {v:#x}") for v in sorted(offered)[:8])
        return Gone(f"{self.name} speaks OpenFlow {spoken or 'of no version'}, not 1.3", _FIX)

    async def run(self, opened: Callable[[], None]) -> None:
        """Reads until the connection ends; calls @opened after the greeting. Raises Gone."""
        self.send(parser.OFPHello(DESC, [parser.OFPHelloElemVersionBitmap([of.OFP_VERSION])]))
        echo = asyncio.create_task(self._echo())
        try:
            async with asyncio.timeout(ANSWER_LIMIT):
                greeting = await self._read()
            if isinstance(greeting, parser.OFPErrorMsg):
                raise Gone(f"{self.name} does not take our greeting: {describe(greeting)}", _FIX)
            if not isinstance(greeting, parser.OFPHello):
                raise Gone(f"{self.name} did not greet")
            opened()
            while True:
                message = await self._read()
                try:
                    self._took(message)
                except Gone:
                    raise
                except Exception as bad:
                    what = type(message).__name__
                    raise Gone(f"{self.name}: its {what} cannot be handled: {bad!r}") from bad
        except TimeoutError:
            raise Gone(f"{self.name} did not greet within {ANSWER_LIMIT:g} s") from None
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            raise Gone(f"{self.name} has closed the connection") from None
        finally:
            echo.cancel()
            self.close()
            self._ended = True
            for request in self._waiting.values():
                if not request.answer.done():
                    request.answer.set_exception(self._gone())

    def _gone(self) -> Gone:
        return Gone(f"{self.name} has gone")

    def _took(self, message: object) -> None:
        if isinstance(message, parser.OFPEchoRequest):
            reply = parser.OFPEchoReply(DESC, message.data)
            reply.set_xid(message.xid)
            reply.serialize()
            self._writer.write(reply.buf)
            return
        if message.xid in self._refusals and isinstance(message, parser.OFPErrorMsg):
            self._refusals[message.xid] = message
            return
        request = self._waiting.get(message.xid)
        if request is None or request.answer.done():
            if not isinstance(message, parser.OFPEchoReply):
                self._tell(self, message)
        elif isinstance(message, parser.OFPErrorMsg):
            request.answer.set_exception(
                Gone(f"{self.name} refused a request: {describe(message)}")
            )
        else:
            self._answered(request, message)

    def _answered(self, request: _Request, message: object) -> None:
        asked, got = type(request.message), type(message)
        if got is not _ANSWERS[asked]:
            raise Gone(f"{self.name} answered {asked.__name__} by {got.__name__}")
        request.parts.append(message)
        if not getattr(message, "flags", 0) & of.OFPMPF_REPLY_MORE:
            request.answer.set_result(request.parts)
        elif len(request.parts) == MAX_PARTS:
            raise Gone(f"{self.name} answered {asked.__name__} by more than {MAX_PARTS} messages")

    async def _echo(self) -> None:
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        while True:
            await asyncio.sleep(ECHO_EVERY)
            if loop.time() - self._last > SILENT_LIMIT:
                self.abort(f"{self.name} was silent for {SILENT_LIMIT:g} s: let go")
                return
            self.send(parser.OFPEchoRequest(DESC, b""))


def describe(error: parser.OFPErrorMsg) -> str:
    if error.type == of.OFPET_EXPERIMENTER:
        return f"error {error.exp_type} of experimenter {error.experimenter:#x}"
    return of.ofp_error_code_to_str(error.type, error.code)
