# SPDX-License-Identifier: BSD-3-Clause
"""DMA between devices, and the routers that use it.

pci.py          PCI devices, from sysfs
paths.py        the path of a request from one device to another
measure.py      measurements of DMA
packets.py      builds packets
model.py        a router in Python that predicts frames
sequences.py    random sequences of frames
plans.py        the routers' plans in a guest, compared with the model
differences.py  compares received frames with predicted ones
"""
