# SPDX-License-Identifier: BSD-3-Clause
"""A switch in memory: it treats flows and groups as OpenFlow 1.3 requires.

It has space for a limited number of both. It reports errors before it answers the next barrier.
"""

import contextlib
import itertools
from collections.abc import Callable
from types import SimpleNamespace

from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from hikyaku.sdn import codec
from hikyaku.sdn.openflow import Gone
from hikyaku.sdn.rules import COOKIE, COOKIE_MASK, Group, Program

Error = tuple[int, int]  # type, code
FULL = (of.OFPET_FLOW_MOD_FAILED, of.OFPFMFC_TABLE_FULL)
NO_GROUP_LEFT = (of.OFPET_GROUP_MOD_FAILED, of.OFPGMFC_OUT_OF_GROUPS)
GROUP_EXISTS = (of.OFPET_GROUP_MOD_FAILED, of.OFPGMFC_GROUP_EXISTS)
BAD_GROUP = (of.OFPET_BAD_ACTION, of.OFPBAC_BAD_OUT_GROUP)


class SoftSwitch:
    """In place of a Channel. @report gets its errors; `refuse` may refuse any message."""

    def __init__(self, report: Callable[["SoftSwitch", object], None]):
        self.report = report
        self.space = self.group_space = 1 << 20
        self.refuse: Callable[[object], Error | None] = lambda _: None
        self.flows: dict[tuple, parser.OFPFlowMod] = {}
        self.groups: dict[int, parser.OFPGroupMod] = {codec.ALIVE: codec.alive_mod()}
        self.sent: list = []
        self.errors: list[parser.OFPErrorMsg] = []
        self.name = "switch"
        self.failed: str | None = None
        self._xids = itertools.count(1)

    def send(self, message: parser.MsgBase) -> int:
        message.set_xid(next(self._xids))
        message.serialize()
        self.sent.append(message)
        error = self.refuse(message)
        if error is None and isinstance(message, parser.OFPFlowMod):
            error = self._flow(message)
        elif error is None and isinstance(message, parser.OFPGroupMod):
            error = self._group(message)
        if error:
            report = parser.OFPErrorMsg(codec.DESC, *error, message.buf[:64])
            report.set_xid(message.xid)
            self.errors.append(report)
        return message.xid

    async def barrier(self) -> None:
        if self.failed:
            raise Gone("the controller has closed the connection")
        errors, self.errors = self.errors, []
        for each in errors:
            self.report(self, each)

    def abort(self, why: str) -> None:
        self.failed = why

    def _flow(self, mod: parser.OFPFlowMod) -> Error | None:
        key = (mod.table_id, mod.priority, str(sorted(mod.match.items())))
        if mod.command == of.OFPFC_DELETE_STRICT:
            self.flows.pop(key, None)
            return None
        if any(g not in self.groups for g in used(mod)):
            return BAD_GROUP
        if key not in self.flows and len(self.flows) >= self.space:
            return FULL
        self.flows[key] = mod
        return None

    def _group(self, mod: parser.OFPGroupMod) -> Error | None:
        if mod.command == of.OFPGC_DELETE:
            self.groups.pop(mod.group_id, None)
            self.flows = {k: f for k, f in self.flows.items() if mod.group_id not in used(f)}
            return None
        if mod.command == of.OFPGC_ADD and mod.group_id in self.groups:
            return GROUP_EXISTS
        if mod.group_id not in self.groups and len(self.groups) >= self.group_space:
            return NO_GROUP_LEFT
        self.groups[mod.group_id] = mod
        return None

    async def request(self, message: parser.MsgBase) -> list:
        """The answer to a request for flows or groups, in one part."""
        if isinstance(message, parser.OFPGroupDescStatsRequest):
            return [SimpleNamespace(body=list(self.groups.values()))]
        assert isinstance(message, parser.OFPFlowStatsRequest)
        wanted = message.cookie & message.cookie_mask
        flows = self.flows.values()
        return [
            SimpleNamespace(body=[f for f in flows if f.cookie & message.cookie_mask == wanted])
        ]

    def program(self) -> Program:
        """The installed rules of the controller."""
        numbers = self._numbers()
        ours = [mod for mod in self.flows.values() if mod.cookie & COOKIE_MASK == COOKIE]
        return dict(codec.flow_back(mod, numbers) for mod in ours)

    def installed_groups(self) -> set[Group]:
        """The installed groups of the controller."""
        return set(self._numbers().of_group)

    def _numbers(self) -> codec.GroupNumbers:
        numbers = codec.GroupNumbers()
        for number in [n for n in self.groups if n in codec.GROUPS and n != codec.ALIVE]:
            with contextlib.suppress(codec.NotOurs):
                numbers.take(number, codec.group_back(self.groups[number], numbers))
        return numbers


def used(mod: parser.OFPFlowMod) -> set[int]:
    actions = [a for i in mod.instructions for a in getattr(i, "actions", ())]
    return {a.group_id for a in actions if isinstance(a, parser.OFPActionGroup)}
