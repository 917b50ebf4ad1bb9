# SPDX-License-Identifier: BSD-3-Clause
"""Peer-to-peer DMA seen from outside: what sysfs tells of PCI devices (pci.py), which way packets
from one to another would take (paths.py), and measuring it (measure.py). For the routers:
packets, and a router in Python (packets.py); their plans in a guest, beside it (plans.py)."""
