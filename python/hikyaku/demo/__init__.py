# SPDX-License-Identifier: BSD-3-Clause
"""The runs of `hikyaku demo`, of less than a minute each, with a sentence and a picture."""
