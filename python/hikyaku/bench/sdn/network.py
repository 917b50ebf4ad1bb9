# SPDX-License-Identifier: BSD-3-Clause
"""A lab of switches for `bench sdn` that no short name describes."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...lab import Lab, down_dead, own_name
from ...lab.controller import controlled


@contextmanager
def network(name: str, topology: dict) -> Iterator[Lab]:
    """A lab with its controller. @topology: as lab/wiring.py reads it from a file."""
    down_dead("bench")
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "topology.json"
        file.write_text(json.dumps(topology))
        with controlled(own_name("bench", name), str(file)) as (lab, _):
            yield lab
