# SPDX-License-Identifier: BSD-3-Clause
"""The guest's kernel, out of an image that would decompress itself."""

import lzma
import struct

import pytest

from hikyaku.guest.kernel import bare

KERNEL = b"\x7fELF and more"
OFFSET = 48  # of the payload, behind the sectors for real mode


def image(payload: bytes, sectors: int) -> bytes:
    head = bytearray(512 * (1 + (sectors or 4)) + OFFSET)
    head[0x1F1] = sectors
    struct.pack_into("<II", head, 0x248, OFFSET, len(payload))
    return bytes(head) + payload + b"what follows"


@pytest.mark.parametrize("sectors", [0, 1, 39])
def test_a_packed_kernel_is_unpacked(sectors: int) -> None:
    payload = lzma.compress(KERNEL) + struct.pack("<I", len(KERNEL))
    assert bare(image(payload, sectors)) == KERNEL


def test_another_image_stays() -> None:
    zstd = image(b"\x28\xb5\x2f\xfd and more", 1)
    assert bare(zstd) == zstd
