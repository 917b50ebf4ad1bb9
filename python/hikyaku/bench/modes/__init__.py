# SPDX-License-Identifier: BSD-3-Clause
"""`bench modes`: the polling modes."""
