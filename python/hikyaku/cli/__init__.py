# SPDX-License-Identifier: BSD-3-Clause
"""The command line: one module for each command. A command parses, calls and prints.

main.py has the entry and the group of all commands; the other packages do the work.
"""
