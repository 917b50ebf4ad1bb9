# SPDX-License-Identifier: BSD-3-Clause
"""A model of what PCI Express carries for a packet: payload, and headers.

The model and its constants are those of pcie-bench (Neugebauer et al., "Understanding PCIe
performance for end host networking", SIGCOMM 2018). A transaction has a header, a sequence number
and a checksum. The link itself needs a share for acknowledgements and credit. The model knows
no latency: it says what fits through a link, and not how fast a device is.
"""

from collections import Counter
from dataclasses import dataclass

# Gigatransfers a second and the share that the encoding leaves, by generation.
GENERATIONS = {
    1: (2.5, 8 / 10),
    2: (5.0, 8 / 10),
    3: (8.0, 128 / 130),
    4: (16.0, 128 / 130),
    5: (32.0, 128 / 130),
}
LINK_SHARE = 57.88 / 62.96  # left by acknowledgements and credit, by pcie-bench's estimate
# Bytes around the payload of a transaction, with 64-bit addresses.
WRITE_HEADER = READ_HEADER = 24
COMPLETION_HEADER = 20
ETHERNET_EXTRA = 24  # bytes of a frame on its wire beside those in memory: FCS, preamble, gap

UP, DOWN = "up", "down"  # from a device, to a device
PATHS = ("bounce", "p2p write", "p2p read")


@dataclass(frozen=True)
class Link:
    generation: int = 3
    width: int = 8
    payload: int = 256  # bytes of a transaction at most (MPS)
    request: int = 512  # bytes that a read asks for at most (MRRS)

    @property
    def gbps(self) -> float:
        """The rate of transactions in each direction, headers included."""
        rate, encoding = GENERATIONS[self.generation]
        return rate * encoding * self.width * LINK_SHARE

    def write(self, size: int) -> Counter:
        """Bytes by direction of the link of a device that writes @size bytes."""
        return Counter({UP: size + WRITE_HEADER * -(-size // self.payload)})

    def read(self, size: int) -> Counter:
        """Bytes by direction of the link of a device that reads @size bytes."""
        requests, completions = -(-size // self.request), -(-size // self.payload)
        return Counter({UP: READ_HEADER * requests, DOWN: size + COMPLETION_HEADER * completions})

    def throughput(self, size: int, carried: Counter) -> float:
        """Gbit/s of payload, if the busier direction is full."""
        return self.gbps * size / max(carried.values())


def turned(carried: Counter) -> Counter:
    """The same transactions at the other device's link."""
    return Counter({UP: carried[DOWN], DOWN: carried[UP]})


def of_path(link: Link, path: str, size: int) -> tuple[Counter, Counter]:
    """Bytes on the links of the NIC that receives a packet, and of the one that sends it."""
    if path == "bounce":  # one writes it to main memory, and the other reads it there
        return link.write(size), link.read(size)
    if path == "p2p write":
        return link.write(size), turned(link.write(size))
    return turned(link.read(size)), link.read(size)


def packets_per_second(gbps: float, size: int) -> float:
    """Frames of @size bytes, with the FCS, that an Ethernet link of @gbps carries."""
    return gbps * 1e9 / 8 / (size - 4 + ETHERNET_EXTRA)


def headers_gbps(link: Link, path: str, size: int, gbps: float) -> float:
    """The headers on both links together, for frames of @size bytes at @gbps."""
    receiver, sender = of_path(link, path, size)
    extra = receiver.total() + sender.total() - 2 * size
    return packets_per_second(gbps, size) * extra * 8 / 1e9


def rows(link: Link, sizes: list[int], gbps: float) -> list[dict]:
    made = []
    for size in sizes:
        row: dict = {"size": size}
        row["write_gbps"] = link.throughput(size, link.write(size))
        row["read_gbps"] = link.throughput(size, link.read(size))
        row["write_headers_gbps"] = (
            packets_per_second(gbps, size) * (link.write(size)[UP] - size) * 8 / 1e9
        )
        for path in PATHS:
            name = path.replace(" ", "_")
            row[f"{name}_headers_gbps"] = headers_gbps(link, path, size, gbps)
        made.append(row)
    return made
