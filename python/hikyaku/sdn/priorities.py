# SPDX-License-Identifier: BSD-3-Clause
"""Priorities of rules, highest first, in one place."""

# table ADMIT
NO_LLDP = 101
LLDP = 100
RANK = 90
TRUNK = 85
SPOOFED = 80
KNOWN = 70
UNKNOWN = 10

# table FORWARD
TAGGED = 60  # to 69, an algorithm's own
STRAY_TAG = 50
HOST = 30  # and 31
FLOOD = 20
