# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku trials`: programs of others over TCP and over Hikyaku, with their results compared.

program.py says which programs, run.py runs them in a lab, compare.py finds what differs.
"""
