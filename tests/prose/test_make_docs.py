# SPDX-License-Identifier: BSD-3-Clause
"""scripts/make-docs.py: what it makes of headers and manual pages."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("make_docs", ROOT / "scripts/make-docs.py")
make_docs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_docs)

HEADER = """/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker.h: an endpoint.
 *
 *   hk_open → hk_close
 *
 * It promises:
 *  - order;
 *  - an end.
 */
#ifndef HK_WORKER_H
#define HK_WORKER_H
#ifdef __cplusplus
extern "C" {
#endif

/* ---- peers ---- */

/* Adds @peer_name; see `hk_*`. */
int hk_add(const char *peer_name);

/* Half of @x. */
static inline int hk_half(int x)
{
	return x / 2;
}

/* One piece. */
struct hk_piece {
	int len; /* bytes; not 0 */
};
#endif
"""


def test_header_becomes_a_page():
    page = make_docs.api_page("worker.h", HEADER)
    assert page.startswith("# worker.h\n\n`#include <hikyaku/worker.h>`\n\nan endpoint.\n")
    assert "```c\n  hk_open → hk_close\n\n```\n" in page
    assert "\n\n - order;\n\n - an end.\n" in page
    assert "## Peers\n" in page
    assert "### hk_add\n\nAdds `peer_name`; see `hk_*`.\n" in page
    assert "```c\nint hk_add(const char *peer_name);\n```" in page
    assert "static inline int hk_half(int x);" in page and "return" not in page
    assert "### hk_piece\n" in page and "int len; /* bytes; not 0 */" in page
    assert "SPDX" not in page and "extern" not in page and "HK_WORKER_H" not in page


def test_every_public_header_becomes_a_page():
    for header in make_docs.tracked("include/hikyaku/*.h"):
        page = make_docs.api_page(Path(header).name, (ROOT / header).read_text())
        assert page.count("```") % 2 == 0 and "### " in page


def test_title_of_a_manual_page_becomes_its_heading():
    page = make_docs.manual_page('hikyakud 8 "" "Hikyaku" "Hikyaku"\n====\n\n# NAME\n\nhikyakud\n')
    assert page == "# hikyakud(8)\n\n## NAME\n\nhikyakud\n"
