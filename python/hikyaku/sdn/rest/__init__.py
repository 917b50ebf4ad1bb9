# SPDX-License-Identifier: BSD-3-Clause
"""The controller's HTTP interface: JSON calls, Prometheus' metrics and the page (docs/sdn.md).

app.py       the routes, what every request must satisfy, and the server
views.py     the calls that only read
changes.py   the calls that change jobs; these need the token
forms.py     the JSON bodies that the calls accept
metrics.py   Prometheus' metrics
"""
