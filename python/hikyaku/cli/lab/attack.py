# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab attack`."""

import json
from dataclasses import asdict

import click

from ..options import json_flag
from .common import lab_option

HEARD = ("replay", "reflect", "forge")  # kinds of attack_heard.attack
RTC = ("rtc-forge", "rtc-replay", "rtc-leave")  # kinds of attack_rtc.Attacks
SDN = ("claim", "lldp", "switch", "idle", "rebind")  # methods of attack_sdn.Attacks


@click.command("attack")
@click.argument("attacker", metavar="NODE")
@click.option("--on", "victim", default="node0", help="The node of the job's first rank.")
@click.option(
    "--kind",
    type=click.Choice(["takeover", *HEARD, *RTC, *SDN]),
    default="takeover",
    help="The attack. The first four are on an MPI job, rtc-… on a job of rtc nodes. The others "
    "are on the controller of wire ovs.",
)
@lab_option
@json_flag
def lab_attack(attacker: str, victim: str, kind: str, name: str, as_json: bool) -> None:
    """Try to end a job from NODE, which takes no part in it.

    NODE sends frames in the name of a rank. With takeover it finds the job's key by trial, and asks
    a rank for its epoch. With the next three it hears the frames to its victim. It sends them again
    (replay), back to their senders (reflect), or changed (forge). docs/security.md describes which
    protection of frames stops that.

    rtc-forge, rtc-replay and rtc-leave attack nodes of hikyaku/rtc.h, also those of hikyaku learn,
    over backend raw or udp. NODE hears the messages to its victim (docs/rtc.md).

    The other kinds attack the network's controller. They forge the address of a host (claim), a
    link (lldp), a switch, and a page of another site (rebind), or open idle connections.

    \b
    Example:
      hikyaku lab up --wire veth --nodes 3
      hikyaku lab mpirun -np 2 ./program            # and in another terminal:
      hikyaku lab attack node2
    """
    if kind in RTC:
        _attack_rtc(kind.removeprefix("rtc-"), attacker, victim, name, as_json)
        return
    if kind in SDN:
        _attack_controller(kind, attacker, victim, name, as_json)
        return
    if kind in HEARD:
        _attack_heard(kind, attacker, victim, name, as_json)
        return
    from ...lab import Lab
    from ...lab.attack import takeover

    found = takeover(Lab.find(name), attacker, victim)
    if as_json:
        click.echo(json.dumps(asdict(found)))
    elif found.key is None:
        click.echo(f"{found.frames} frames sent to {victim}: nothing answered")
    else:
        click.echo(
            f"{victim} answered after {found.frames} frames: job key {found.key:#010x}, epoch "
            f"{found.epoch:#010x}; sent a frame as {found.ended[0]}"
        )


def _show(result: object, text: str, as_json: bool) -> None:
    click.echo(json.dumps(asdict(result)) if as_json else text)


def _attack_heard(kind: str, attacker: str, victim: str, name: str, as_json: bool) -> None:
    from ...lab import Lab
    from ...lab.attack_heard import attack

    result = attack(Lab.find(name), attacker, victim, kind)
    heard = ", ".join(f"{n} {what}" for what, n in sorted(result.heard.items()))
    _show(result, f"heard {heard}; {result.frames} frames sent", as_json)


def _attack_rtc(kind: str, attacker: str, victim: str, name: str, as_json: bool) -> None:
    from ...lab import Lab
    from ...lab.attack_rtc import Attacks

    result = Attacks(Lab.find(name), attacker, victim).run(kind)
    if kind == "leave":
        text = f"{result.frames} frames told {victim} that a node leaves; does the job go on?"
    else:
        text = f"{result.frames} frames sent to {victim}: {result.answers} answers"
    _show(result, text, as_json)


def _attack_controller(kind: str, attacker: str, victim: str, name: str, as_json: bool) -> None:
    from ...lab import Lab
    from ...lab.attack_sdn import Attacks

    result = Attacks(Lab.find(name), attacker, victim).run(kind)
    ended = "succeeded" if result.succeeded else "failed"
    _show(result, f"the attack {ended}: {result.got}", as_json)
