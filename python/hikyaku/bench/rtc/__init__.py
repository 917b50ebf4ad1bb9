# SPDX-License-Identifier: BSD-3-Clause
"""`bench rtc`: run to completion."""
