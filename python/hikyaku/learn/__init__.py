# SPDX-License-Identifier: BSD-3-Clause
"""Gossip learning: nodes train on their own rows and merge parameters with neighbours."""
