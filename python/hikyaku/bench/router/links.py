# SPDX-License-Identifier: BSD-3-Clause
"""Bytes that the transfers of emulated NICs would take of their PCI Express links.

hk_nic counts transfers and bytes by region. The model of devmem/pcie.py makes bytes on each NIC's
link of them, with headers. Main memory and the host's process are beyond the root complex, so they
have no link here.
"""

from collections import Counter
from dataclasses import dataclass

from ...devmem.pcie import Link, turned


@dataclass(frozen=True)
class Load:
    """Bytes of one NIC's link, in both directions together."""

    carried: float
    payload: float  # of these, the bytes of packets

    @property
    def header_share(self) -> float:
        return 1 - self.payload / self.carried if self.carried else 0.0


def _carried(link: Link, transfer: dict) -> Counter:
    """Bytes by direction at the device that makes the transfers; all have their mean size."""
    count, size = transfer["transfers"], -(-transfer["bytes"] // transfer["transfers"])
    one = link.write(size) if transfer["way"] == "write" else link.read(size)
    return Counter({way: (bytes_ * count) for way, bytes_ in one.items()})


def loads(processes: list[dict], link: Link | None = None) -> list[Load]:
    """The load of each NIC's link, for the documents of all processes of a router."""
    link = link or Link()
    nics = [each for each in processes if "nic" in each]
    carried = [Counter() for _ in nics]
    payload = [0] * len(nics)
    for each in processes:
        own = each.get("nic")  # None: the host
        for transfer in each["transfers"]:
            region = transfer["region"]
            if region == ("host" if own is None else f"bar{own}"):
                continue  # in its own memory: on no link
            at = _carried(link, transfer)
            crossed = [] if own is None else [(own, at)]
            if region.startswith("bar"):
                crossed.append((int(region.removeprefix("bar")), turned(at)))
            for nic, counted in crossed:
                carried[nic] += counted
                payload[nic] += transfer["bytes"] if transfer["what"] == "payload" else 0
    return [Load(c.total(), p) for c, p in zip(carried, payload, strict=True)]


def rows(processes: list[dict]) -> list[dict]:
    """The loads as rows, in bytes a frame."""
    frames = sum(each.get("sent", 0) for each in processes)
    return [
        {
            "nic": nic,
            "bytes_a_frame": load.carried / frames,
            "payload_a_frame": load.payload / frames,
            "header_share": load.header_share,
        }
        for nic, load in enumerate(loads(processes))
    ]
