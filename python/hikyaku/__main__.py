# SPDX-License-Identifier: BSD-3-Clause
"""Entry of `python -m hikyaku`; the launcher ./hikyaku calls it."""

import sys

try:
    from .cli.main import run
except KeyboardInterrupt:  # loading takes most of the time of a short command
    sys.exit(130)

run()
