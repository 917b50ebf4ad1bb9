# SPDX-License-Identifier: BSD-3-Clause
"""`bench learn`: models that nodes train together, over every backend."""
