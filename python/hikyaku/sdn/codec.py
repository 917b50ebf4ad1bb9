# SPDX-License-Identifier: BSD-3-Clause
"""Rules and groups as OpenFlow 1.3 messages of os-ken, and back.

Pure. The number of a group is a hash of its actions, so that a new controller finds the groups of
the earlier one. If the number is in use, the group takes the next one.
"""

import zlib

from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from .rules import (
    ALL_BITS,
    COOKIE,
    COOKIE_MASK,
    Bucket,
    Does,
    Goto,
    Group,
    Key,
    Match,
    Out,
    SetDst,
)
from .tag import from_mac, to_mac

DESC = ProtocolDesc(of.OFP_VERSION)
WHOLE_FRAME = of.OFPCML_NO_BUFFER

# Groups have no cookie. Numbers in this range are ours; other groups are never touched.
GROUPS = range(0x6800_0000, 0x6900_0000)

# A bucket of a fast-failover group must watch something. A bucket that is always usable watches
# this group, which every switch has and which is always alive.
ALIVE = GROUPS[0]


class NotOurs(ValueError):
    """A rule or group that this code has not written."""


# ---- groups --------------------------------------------------------------------------------------


class GroupNumbers:
    """The numbers of the groups of one switch."""

    def __init__(self) -> None:
        self.of_group: dict[Group, int] = {}
        self._more: dict[Group, list[int]] = {}  # further numbers of groups that exist twice
        self._taken: dict[int, Group | None] = {ALIVE: None}  # None: of another program

    def number(self, group: Group) -> int:
        if group not in self.of_group:
            at = zlib.crc32(repr(group).encode())
            while (number := GROUPS[at % len(GROUPS)]) in self._taken:
                at += 1
            self.take(number, group)
        return self.of_group[group]

    def take(self, number: int, group: Group) -> None:
        if self.of_group.setdefault(group, number) != number:
            self._more.setdefault(group, []).append(number)
        self._taken[number] = group

    def lose(self, number: int) -> None:
        """Another program uses @number."""
        self._taken[number] = None

    def forget(self, group: Group) -> list[int]:
        """Forgets @group, and returns its numbers."""
        numbers = [self.of_group.pop(group), *self._more.pop(group, ())]
        for number in numbers:
            del self._taken[number]
        return numbers

    def group(self, number: int) -> Group:
        group = self._taken.get(number)
        if group is None:
            raise NotOurs(f"group {number}")
        return group


def _actions(actions: tuple, numbers: GroupNumbers) -> list:
    made = []
    for action in actions:
        if isinstance(action, Out):
            made.append(parser.OFPActionOutput(action.port, WHOLE_FRAME))
        elif isinstance(action, SetDst):
            made.append(parser.OFPActionSetField(eth_dst=to_mac(action.mac)))
        elif isinstance(action, Group):
            made.append(parser.OFPActionGroup(numbers.number(action)))
    return made


def _actions_back(actions: list, numbers: GroupNumbers) -> tuple:
    found = []
    for action in actions:
        if isinstance(action, parser.OFPActionOutput):
            found.append(Out(action.port))
        elif isinstance(action, parser.OFPActionSetField) and action.key == "eth_dst":
            found.append(SetDst(from_mac(action.value)))
        elif isinstance(action, parser.OFPActionGroup):
            found.append(numbers.group(action.group_id))
        else:
            raise NotOurs(f"action {action}")
    return tuple(found)


def group_add(group: Group, numbers: GroupNumbers) -> parser.OFPGroupMod:
    kind = of.OFPGT_FF if group.failover else of.OFPGT_ALL
    buckets = [
        parser.OFPBucket(
            weight=0,
            watch_port=of.OFPP_ANY if b.watch is None else b.watch,
            watch_group=ALIVE if group.failover and b.watch is None else of.OFPG_ANY,
            actions=_actions(b.actions, numbers),
        )
        for b in group.buckets
    ]
    return parser.OFPGroupMod(DESC, of.OFPGC_ADD, kind, numbers.number(group), buckets)


def group_delete(number: int) -> parser.OFPGroupMod:
    return parser.OFPGroupMod(DESC, of.OFPGC_DELETE, of.OFPGT_ALL, number, [])


def alive_mod(command: int = of.OFPGC_ADD) -> parser.OFPGroupMod:
    """Creates the group ALIVE, or overwrites it."""
    actions = [parser.OFPActionOutput(of.OFPP_IN_PORT, WHOLE_FRAME)]
    bucket = parser.OFPBucket(0, of.OFPP_ANY, of.OFPG_ANY, actions)
    return parser.OFPGroupMod(DESC, command, of.OFPGT_ALL, ALIVE, [bucket])


def is_alive(stats: parser.OFPGroupDescStats) -> bool:
    """Is the group ALIVE what alive_mod() makes?"""
    try:
        group = group_back(stats, GroupNumbers())
    except NotOurs:
        return False
    return group == Group(False, (Bucket(None, (Out(of.OFPP_IN_PORT),)),))


def group_back(stats: parser.OFPGroupDescStats, numbers: GroupNumbers) -> Group:
    if stats.type not in (of.OFPGT_ALL, of.OFPGT_FF):
        raise NotOurs(f"group {stats.group_id} of type {stats.type}")
    failover = stats.type == of.OFPGT_FF
    return Group(
        failover,
        tuple(
            Bucket(
                b.watch_port if failover and b.watch_port != of.OFPP_ANY else None,
                _actions_back(b.actions, numbers),
            )
            for b in stats.buckets
        ),
    )


# ---- rules ---------------------------------------------------------------------------------------


def _match(match: Match) -> parser.OFPMatch:
    fields = {}
    if match.in_port is not None:
        fields["in_port"] = match.in_port
    if match.dst is not None:
        dst, mask = to_mac(match.dst), to_mac(match.dst_mask)
        fields["eth_dst"] = dst if match.dst_mask == ALL_BITS else (dst, mask)
    if match.src is not None:
        fields["eth_src"] = to_mac(match.src)
    if match.eth_type is not None:
        fields["eth_type"] = match.eth_type
    return parser.OFPMatch(**fields)


def _match_back(match: parser.OFPMatch) -> Match:
    fields = {}
    for name, value in match.items():
        if name == "eth_dst":
            masked = isinstance(value, tuple)
            fields["dst"] = from_mac(value[0] if masked else value)
            fields["dst_mask"] = from_mac(value[1]) if masked else ALL_BITS
        elif name == "eth_src" and isinstance(value, str):
            fields["src"] = from_mac(value)
        elif name in ("in_port", "eth_type"):
            fields[name] = value
        else:
            raise NotOurs(f"match on {name}")
    return Match(**fields)


def flow_add(key: Key, does: Does, numbers: GroupNumbers) -> parser.OFPFlowMod:
    """Replaces what the switch has under the same key."""
    instructions = []
    actions = _actions(does.actions, numbers)
    if actions:
        instructions.append(parser.OFPInstructionActions(of.OFPIT_APPLY_ACTIONS, actions))
    for action in does.actions:
        if isinstance(action, Goto):
            instructions.append(parser.OFPInstructionGotoTable(action.table))
    return parser.OFPFlowMod(
        DESC,
        cookie=COOKIE | does.job,
        table_id=key.table,
        command=of.OFPFC_ADD,
        priority=key.priority,
        match=_match(key.match),
        instructions=instructions,
    )


def flow_delete(key: Key) -> parser.OFPFlowMod:
    """That of ours alone: others may have written the same key meanwhile."""
    return parser.OFPFlowMod(
        DESC,
        cookie=COOKIE,
        cookie_mask=COOKIE_MASK,
        table_id=key.table,
        command=of.OFPFC_DELETE_STRICT,
        priority=key.priority,
        out_port=of.OFPP_ANY,
        out_group=of.OFPG_ANY,
        match=_match(key.match),
    )


def key_back(stats: parser.OFPFlowStats) -> Key:
    return Key(stats.table_id, stats.priority, _match_back(stats.match))


def does_back(stats: parser.OFPFlowStats, numbers: GroupNumbers) -> Does:
    actions: tuple = ()
    goto: tuple = ()
    for each in stats.instructions:
        if isinstance(each, parser.OFPInstructionGotoTable):
            goto = (Goto(each.table_id),)
        elif getattr(each, "type", None) == of.OFPIT_APPLY_ACTIONS:
            actions = _actions_back(each.actions, numbers)
        else:
            raise NotOurs(f"instruction {each}")
    return Does((*actions, *goto), stats.cookie & ~COOKIE_MASK)


def flow_back(stats: parser.OFPFlowStats, numbers: GroupNumbers) -> tuple[Key, Does]:
    return key_back(stats), does_back(stats, numbers)


# ---- frames --------------------------------------------------------------------------------------


def frame_out(port: int, frame: bytes) -> parser.OFPPacketOut:
    """The switch sends @frame by @port."""
    actions = [parser.OFPActionOutput(port)]
    return parser.OFPPacketOut(DESC, of.OFP_NO_BUFFER, of.OFPP_CONTROLLER, actions, frame)
