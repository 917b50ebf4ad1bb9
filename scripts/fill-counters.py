#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fill-counters.py PAGE COUNTERS.json: prints a manual page with @COUNTERS GROUP...@ replaced.

Each counter of the groups becomes an entry, with its help text. The build makes COUNTERS.json from
include/hikyaku/counters.h and src/hostd/counters.h.
"""

import json
import re
import sys
from pathlib import Path


def main() -> None:
    page, definitions = Path(sys.argv[1]).read_text(), json.loads(Path(sys.argv[2]).read_text())

    def entries(found: re.Match) -> str:
        groups = found[1].split()
        assert set(groups) <= {of["group"] for of in definitions}, groups
        known = [of for of in definitions if of["group"] in groups]
        return "\n\n".join(f"**{of['name']}**\n:   {of['help']}." for of in known)

    sys.stdout.write(re.sub(r"^@COUNTERS ([\w ]+)@$", entries, page, flags=re.MULTILINE))


if __name__ == "__main__":
    main()
