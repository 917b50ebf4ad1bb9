# SPDX-License-Identifier: BSD-3-Clause
"""Huge pages of labs: taken from the machine at `up`, given back to the page at `down`.

The kernel's pool has one number that all labs, checkouts and the administrator share. So each lab
records in a book (huge.json) how many pages it added, and only adds or subtracts. One lock for the
whole machine protects changes. The book gets a change before it is made, with the pool's number
before and after. If the tool dies in between, the next holder of the lock sees the progress in the
pool, and corrects the book.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..checkout import STATE_DIR
from ..errors import HikyakuError
from ..lock import try_lock
from ..process import run, wait_until

PAGE_MB = 2
POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
BOOK = "huge.json"


def pool_pages() -> int:
    """The machine's permanent pages; surplus pages disappear by themselves."""
    return int((POOL / "nr_hugepages").read_text()) - int((POOL / "surplus_hugepages").read_text())


# ---- the books -----------------------------------------------------------------------------------


def _read(book: Path) -> tuple[int, tuple[int, int] | None]:
    """The lab's pages, and an unfinished change of the pool: (from, to)."""
    try:
        data = json.loads(book.read_text())
        step = data["step"]
        return int(data["pages"]), (int(step[0]), int(step[1])) if step else None
    except (ValueError, KeyError, TypeError, IndexError) as bad:
        raise HikyakuError(
            f"{book} is damaged ({bad}): how many huge pages are the lab's is not known",
            f"remove it, and set {POOL}/nr_hugepages to what the machine shall have",
        ) from None


def _write(book: Path, pages: int, step: tuple[int, int] | None) -> None:
    fresh = book.with_suffix(".new")
    fresh.write_text(json.dumps({"pages": pages, "step": step}) + "\n")
    fresh.replace(book)


def _settle(book: Path) -> None:
    """Finishes a change: records its actual size in the book."""
    pages, step = _read(book)
    if step:
        low, high = sorted((0, step[1] - step[0]))
        _write(book, pages + min(max(pool_pages() - step[0], low), high), None)


def _change(book: Path, count: int) -> None:
    at = pool_pages()
    to = max(0, at + count)
    _write(book, _read(book)[0], (at, to))
    try:
        (POOL / "nr_hugepages").write_text(str(to))
    finally:
        _settle(book)


def _books() -> list[Path]:
    """The books of every lab of this user, in any checkout."""
    return [
        book
        for book in sorted(STATE_DIR.parent.glob(f"hikyaku-{os.getuid()}-*/labs/*/{BOOK}"))
        if book.lstat().st_uid == os.getuid()
    ]


@contextmanager
def _pool_locked() -> Iterator[None]:
    with (POOL / "nr_hugepages").open() as pool:
        wait_until(
            f"the lock of {POOL}/nr_hugepages: another lab takes or gives back huge pages",
            lambda: try_lock(pool.fileno()),
            60,
        )
        for book in _books():
            _settle(book)
        yield


# ---- what labs do --------------------------------------------------------------------------------


def check(huge_mb: int) -> None:
    if huge_mb < 0 or huge_mb % PAGE_MB:
        raise HikyakuError(
            f"{huge_mb} MB of huge pages", f"they are of {PAGE_MB} MB each: give a multiple of that"
        )
    if huge_mb and not POOL.is_dir():
        raise HikyakuError(
            f"this kernel has no huge pages of {PAGE_MB} MB ({POOL} is not there)",
            "bring the lab up without --huge",
        )


def take(directory: Path, pages: int) -> None:
    """Adds @pages to the machine's for the lab in @directory; all of them, or an error."""
    book = directory / BOOK
    with _pool_locked():
        _write(book, 0, None)
        _change(book, pages)
        got = _read(book)[0]
        if got == pages:
            return
        _change(book, -got)
        book.unlink()
    raise HikyakuError(
        f"the machine has only {got * PAGE_MB} MB to make huge pages of, not {pages * PAGE_MB}",
        "ask for less by --huge, or free memory (huge pages need it in whole blocks of 2 MB)",
    )


def give_back(directory: Path) -> int:
    """Removes from the machine's pool the pages that the lab in @directory added; returns their
    number."""
    book = directory / BOOK
    if not book.exists():
        return 0
    with _pool_locked():
        pages = _read(book)[0]
        _change(book, -pages)
        book.unlink()
    return pages


def mount(path: Path, mb: int) -> None:
    """Mounts a hugetlbfs at @path with at most @mb. It reserves no pages: DPDK mistakes reserved
    pages for unavailable ones."""
    path.mkdir(mode=0o700)
    options = f"pagesize={PAGE_MB}M,size={mb}M,mode=0700"
    run(["mount", "-t", "hugetlbfs", "-o", options, "hikyaku", str(path)])


def unmount(path: Path) -> None:
    """Unmounts @path, if it is mounted."""
    while path.is_mount():
        run(["umount", str(path)])
