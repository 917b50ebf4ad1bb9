# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`: a network that knows the communication pattern."""
