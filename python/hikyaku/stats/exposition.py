# SPDX-License-Identifier: BSD-3-Clause
"""Prometheus' text exposition format, version 0.0.4, of given families of metrics."""

from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class _Families:
    """A collector registry that holds fixed families."""

    def __init__(self, families: Iterable[Metric]):
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def text(families: Iterable[Metric]) -> str:
    return generate_latest(_Families(families)).decode()
