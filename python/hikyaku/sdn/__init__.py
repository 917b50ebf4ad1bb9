# SPDX-License-Identifier: BSD-3-Clause
"""A network that knows the communication pattern: its tags, its controller, and the taggers."""
