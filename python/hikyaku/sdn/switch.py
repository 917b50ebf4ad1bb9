# SPDX-License-Identifier: BSD-3-Clause
"""A connected switch: its take-over, its installed rules, and the steps that change them."""

import contextlib

from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from ..errors import HikyakuError
from . import codec, rules
from .cubes import tags
from .names import clean
from .openflow import Channel, describe
from .rules import (
    Does,
    Goto,
    Group,
    Key,
    Match,
    Out,
    Program,
    SetDst,
    copies,
    groups,
    is_tree,
    meet,
)

_LLDP_RULE = Key(rules.ADMIT, 100, Match(dst=rules.LLDP_ADDRESS, eth_type=rules.LLDP_TYPE))

_HOST = 0x0200_0000_0000
_WHOLE_COOKIE = (1 << 64) - 1

# The kinds of rules that are needed, for tags that nobody uses. The masks have holes, like those of
# cubes of ranks.
_ON = Goto(rules.FORWARD)
_DST, _MASK = tags(0, source=(0b10, 0b1010), destination=(0b1, 0b101))
_BACK = Does((SetDst(_HOST), Out(rules.IN_PORT)))
_ADMITTED = {Key(rules.ADMIT, 1, Match(dst=_DST, dst_mask=_MASK, src=_HOST)): Does((_ON,))}
_PROBES = _ADMITTED | {Key(rules.FORWARD, 1, Match(dst=_DST, dst_mask=_MASK)): _BACK}
_EXACT_PROBES = _ADMITTED | {Key(rules.FORWARD, 1, Match(dst=_DST)): _BACK}
_GROUPS = {"all": of.OFPGT_ALL, "fast failover": of.OFPGT_FF}

# The actions of a rule with our cookie that this code has not written. It is overwritten or
# removed.
_UNREADABLE = Does((), job=-1)


def ours(table: int = of.OFPTT_ALL, job: int | None = None) -> parser.OFPFlowStatsRequest:
    """The request for our rules in @table, with their counters. @job: of this job alone, or with 0
    those of no job."""
    cookie = rules.COOKIE | (job or 0)
    mask = rules.COOKIE_MASK if job is None else _WHOLE_COOKIE
    return parser.OFPFlowStatsRequest(
        codec.DESC, 0, table, of.OFPP_ANY, of.OFPG_ANY, cookie, mask, parser.OFPMatch()
    )


class Switch:
    """Its channel, its ports, and what is installed in it.

    A change has phases, each of which returns whether it sent anything: prepare, add, change, grow
    and remove. The controller puts a barrier on every switch between two of them.
    """

    def __init__(self, number: int, channel: Channel):
        self.number = number
        self.name = f"switch {number}"
        self.channel = channel
        self.ports: dict[int, str] = {}  # those that are up, with their names
        self.numbers = codec.GroupNumbers()
        self.rules: Program = {}
        self.groups: set[Group] = set()
        # by transaction, for its error: a rule and what that did before, or a new group
        self.sent: dict[int, tuple[Key | Group, Does | None]] = {}
        self.refused: dict[Key, str] = {}
        self.refused_groups: dict[Group, str] = {}  # in this update
        self.again = False  # what was refused may be taken now
        self.problem: str | None = None  # the last one that was said; said again when it had gone
        self.failed = False  # something since the last answer
        self.counts: dict[int, tuple[int, int, int, int]] = {}  # tx bytes, rx bytes, frames
        self._counted = 0.0

    # ---- taking it over -----------------------------------------------------------------------

    @classmethod
    async def taken_over(cls, channel: Channel, *, exact: bool = False) -> "Switch":
        """Checks its abilities, becomes its master, and reads its rules. @exact: it gets rules by
        whole addresses, which need less."""
        (features,) = await channel.request(parser.OFPFeaturesRequest(codec.DESC))
        channel.check_claim(features.datapath_id)
        channel.name = f"switch {features.datapath_id}"
        switch = cls(features.datapath_id, channel)
        await switch._check(features, exact)
        await switch._become_master()
        ports = await channel.request(parser.OFPPortDescStatsRequest(codec.DESC, 0))
        for port in (p for part in ports for p in part.body):
            switch.port(port)
        await switch._read_back(exact)
        channel.send(codec.flow_add(_LLDP_RULE, Does((Out(rules.CONTROLLER),)), switch.numbers))
        await channel.barrier()
        return switch

    async def _check(self, features: parser.OFPSwitchFeatures, exact: bool) -> None:
        """Refuses a switch that lacks what the rules need."""
        if features.n_tables < 2:
            raise HikyakuError(
                f"it has {features.n_tables} flow table, and 2 are needed", "use another switch"
            )
        ask = parser.OFPGroupFeaturesStatsRequest(codec.DESC, 0)
        (answer,) = await self.channel.request(ask)
        for name in ["all"] if exact else _GROUPS:
            if not answer.body.types & 1 << _GROUPS[name]:
                raise HikyakuError(f"it has no groups of type {name}", "use another switch")
        for key, does in (_EXACT_PROBES if exact else _PROBES).items():
            await self._probe(key, does)

    async def _probe(self, key: Key, does: Does) -> None:
        """Tests a rule: its acceptance tells more of a table than any description. A switch whose
        table is only full has the ability."""
        error = await self.channel.refusal(codec.flow_add(key, does, self.numbers))
        if error is None:
            self.channel.send(codec.flow_delete(key))
        elif (error.type, error.code) != (of.OFPET_FLOW_MOD_FAILED, of.OFPFMFC_TABLE_FULL):
            raise HikyakuError(
                f"its flow table {key.table} does not take rules that match masked Ethernet "
                f"addresses{' and set them' if does.actions[0] != _ON else ''}: {describe(error)}",
                "use another switch",
            )

    async def _become_master(self) -> None:
        known = (await self._role()).generation_id
        generation = 0 if known == 0xFFFF_FFFF_FFFF_FFFF else known + 1
        become = parser.OFPRoleRequest(codec.DESC, of.OFPCR_ROLE_MASTER, generation)
        await self.channel.request(become)

    async def _role(self) -> parser.OFPRoleReply:
        ask = parser.OFPRoleRequest(codec.DESC, of.OFPCR_ROLE_NOCHANGE, 0)
        (role,) = await self.channel.request(ask)
        return role

    async def has_another_master(self) -> bool:
        return (await self._role()).role == of.OFPCR_ROLE_SLAVE

    async def _read_back(self, exact: bool = False) -> None:
        """Reads the rules of an earlier controller of ours. Other rules are never touched. Without
        groups of fast failover, none has to be always alive."""
        parts = await self.channel.request(parser.OFPGroupDescStatsRequest(codec.DESC, 0))
        there = [s for part in parts for s in part.body]
        alive = None
        for stats in (s for s in there if s.group_id in codec.GROUPS):
            if stats.group_id == codec.ALIVE:
                alive = stats
                continue
            try:
                group = codec.group_back(stats, self.numbers)
            except codec.NotOurs:
                self.numbers.lose(stats.group_id)
                continue
            self.numbers.take(stats.group_id, group)
            self.groups.add(group)
        if alive is None and not exact:
            self.channel.send(codec.alive_mod())
        elif alive is not None and not codec.is_alive(alive):
            self.channel.send(codec.alive_mod(of.OFPGC_MODIFY))
        for stats in (s for part in await self.channel.request(ours()) for s in part.body):
            with contextlib.suppress(codec.NotOurs):
                key = codec.key_back(stats)
                self.rules[key] = _UNREADABLE
                self.rules[key] = codec.does_back(stats, self.numbers)

    # ---- what it tells ------------------------------------------------------------------------

    def port(self, desc: parser.OFPPort, *, gone: bool = False) -> bool | None:
        """Handles the description of a port. Returns whether the port is up now, or None without a
        change."""
        number = desc.port_no
        name = clean(desc.name)
        if number == of.OFPP_LOCAL and name:
            self.name = name  # the switch's own port is called as itself
        if number > of.OFPP_MAX:
            return None
        up = not (gone or desc.state & of.OFPPS_LINK_DOWN or desc.config & of.OFPPC_PORT_DOWN)
        was = number in self.ports
        if up:
            self.ports[number] = name
        else:
            self.ports.pop(number, None)
        return None if up == was else up

    def rates(self, stats: list, now: float) -> dict[int, float]:
        """Handles the ports' counters. Returns the bits a second that each has sent since the last
        ones."""
        passed = now - self._counted
        found = {}
        for each in (s for s in stats if s.port_no <= of.OFPP_MAX):
            before = self.counts.get(each.port_no)
            self.counts[each.port_no] = (
                each.tx_bytes,
                each.rx_bytes,
                each.tx_packets,
                each.rx_packets,
            )
            if before and passed > 0:
                found[each.port_no] = max(0, each.tx_bytes - before[0]) * 8 / passed
        self._counted = now
        return found

    def refuses(self, xid: int, why: str, *, taken: bool = False) -> None:
        """The switch refused transaction @xid: its old state remains. @taken: another program has a
        group of this number."""
        what, before = self.sent.pop(xid, (None, None))
        if isinstance(what, Key):
            self.refused[what] = why
            if before is None:
                self.rules.pop(what, None)
            else:
                self.rules[what] = before
        elif what is not None:
            self.refused_groups[what] = why
            self.groups.discard(what)
            for number in self.numbers.forget(what):
                if taken:
                    self.numbers.lose(number)
                    self.again = True

    def changes(self, program: Program) -> int:
        """How many rules an update to @program adds, replaces or removes."""
        keys = self.rules.keys() | program.keys()
        return sum(self.rules.get(key) != program.get(key) for key in keys)

    def answered(self, program: Program) -> bool:
        """All refusals of @program are known. Returns whether to send refused rules again at once,
        since they may fit now."""
        self.sent.clear()
        self.refused = {
            key: why
            for key, why in self.refused.items()
            if key in program and self.rules.get(key) != program[key]
        }
        if not self.failed:
            self.problem = None
        self.failed = False
        return bool(self.refused) and self.again

    def refused_of(self, job: int, wanted: dict[int, Program]) -> dict[Key, str]:
        program = wanted.get(self.number, {})
        return {k: why for k, why in self.refused.items() if k in program and program[k].job == job}

    # ---- what it is told ----------------------------------------------------------------------

    def _write(self, key: Key, does: Does) -> None:
        """Writes a rule, unless its group was refused."""
        for action in does.actions:
            if isinstance(action, Group) and action not in self.groups:
                self.refused[key] = self.refused_groups.get(action, "its group is not there")
                return
        xid = self.channel.send(codec.flow_add(key, does, self.numbers))
        self.sent[xid] = (key, self.rules.get(key))
        self.rules[key] = does

    def prepare(self, program: Program) -> bool:
        """Adds groups, before rules use them."""
        self.refused_groups.clear()
        self.again = False
        new_groups = groups(program) - self.groups
        for group in sorted(new_groups, key=repr):
            xid = self.channel.send(codec.group_add(group, self.numbers))
            self.sent[xid] = (group, None)
        self.groups |= new_groups
        return bool(new_groups)

    def add(self, program: Program) -> bool:
        new = [k for k, does in program.items() if k not in self.rules and not is_tree(does)]
        for key in new:
            self._write(key, program[key])
        return bool(new)

    def change(self, program: Program) -> bool:
        """Replaces changed rules. Trees are cut down to the part that old and new share."""
        changed = False
        for key, does in program.items():
            old = self.rules.get(key, does)
            new = _cut(old, does) if is_tree(does) else does
            if new != old:
                self._write(key, new)
                changed = True
        return changed

    def uncut(self, program: Program) -> list[Key]:
        """The trees whose cut the switch has refused."""
        return [
            key
            for key, does in program.items()
            if is_tree(does) and set(copies(self.rules.get(key, does))) - set(copies(does))
        ]

    def grow(self, program: Program, held: dict[Key, str | None]) -> bool:
        """Grows trees to their new form; those in @held wait for the switch that refuses, if it is
        named."""
        changed = False
        for key, does in program.items():
            if not is_tree(does) or self.rules.get(key) == does:
                continue
            if key in held:
                if held[key]:
                    self.refused.setdefault(key, f"{held[key]} refuses its part of this tree")
                continue
            self._write(key, does)
            changed = True
        return changed

    def remove(self, program: Program) -> bool:
        """Removes unwanted rules, then groups without a rule. A group whose rule refused to change
        stays, since the rule would go with it."""
        stale = [k for k in self.rules if k not in program]
        for key in stale:
            xid = self.channel.send(codec.flow_delete(key))
            self.sent[xid] = (key, self.rules.pop(key))
        old_groups = self.groups - groups(program) - groups(self.rules)
        for group in sorted(old_groups, key=repr):
            for number in self.numbers.forget(group):
                self.channel.send(codec.group_delete(number))
        self.groups -= old_groups
        self.again |= bool(stale or old_groups)
        return bool(stale or old_groups)


def _cut(old: Does, new: Does) -> Does:
    """The copies that both send, in the form of @old or @new if these send no others."""
    both = meet(old, new)
    if set(copies(old)) <= set(copies(both)):
        return old
    return new if set(copies(new)) <= set(copies(both)) else both
