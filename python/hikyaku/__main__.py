# SPDX-License-Identifier: BSD-3-Clause
"""Entry of `python -m hikyaku`; the launcher ./hikyaku calls it."""

from .cli.main import run

run()
