# SPDX-License-Identifier: BSD-3-Clause
"""A network that knows the communication pattern: tags, and who reads and writes them."""
