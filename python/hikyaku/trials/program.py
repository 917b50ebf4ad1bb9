# SPDX-License-Identifier: BSD-3-Clause
"""The programs: those that the distribution packages, and those that a file names.

A program that is not installed is not fetched. Its row says which package has it.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import HikyakuError

LISTING = "trials"  # the file in a directory that names its programs
MAX_RANKS = 64

# In the format of HPL.dat, the position of a line gives its meaning. The text after the value is
# free.
HPCC_INPUT = """\
HPC Challenge input
on a small problem
none     output file of Linpack alone
8        where its output goes: the file of the suite
1        number of problem sizes
{size}   N
1        number of block sizes
{block}  NB
0        row-major process grid
1        number of process grids
{rows}   P
{columns} Q
16.0     residual that still passes
1        panel factorisations
2        right-looking
1        stopping criteria
4        NBMIN
1        panels in recursion
2        NDIV
1        recursive factorisations
1        Crout
1        broadcasts
1        modified ring
1        look-ahead depths
1        depth
2        swap: mix
64       swapping threshold
0        L1 transposed
0        U transposed
1        equilibration
8        alignment in doubles
separator
0        additional sizes for the transposition
400
0        additional block sizes for the transposition
32
"""

# A melting Lennard-Jones crystal: atoms of one kind in a box that fills each node alike.
LAMMPS_INPUT = """\
units lj
atom_style atomic
lattice fcc 0.8442
region all block 0 {cells} 0 {cells} 0 {cells}
create_box 1 all
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 20 check no
fix 1 all nve
thermo 20
run {steps}
"""


@dataclass(frozen=True)
class Program:
    """@command: its words; the first is looked up in PATH. @package: of Debian, that has it.
    @inputs: files in its working directory. @outputs: files there that it writes, beside what it
    prints. @times: a pattern of its lines that are times, beside those that compare.py knows.
    @place: its working directory; None: a new one for each run."""

    name: str
    ranks: int
    command: tuple[str, ...]
    package: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    times: str = ""
    place: Path | None = None


def packaged() -> list[Program]:
    hpcc = HPCC_INPUT.format(size=797, block=61, rows=2, columns=2)
    lammps = LAMMPS_INPUT.format(cells=12, steps=100)
    scalapack = Path("/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests")
    return [
        Program(
            "hpcc",
            4,
            ("hpcc",),
            "hpcc",
            {"hpccinf.txt": hpcc},
            ("hpccoutf.txt",),
            "^(Copy|Scale|Add|Triad|Generation|Tuning|Computing|Inverse FFT):",
        ),
        Program("netpipe", 2, ("NPopenmpi", "-i", "-u", "262144"), "netpipe-openmpi"),
        Program("lammps", 4, ("lmp", "-in", "in.melt"), "lammps", {"in.melt": lammps}),
        *(
            Program(
                f"scalapack-{name}",
                4,
                (str(scalapack / name),),
                "scalapack-mpi-test",
                place=scalapack,
            )
            for name in ("xdlu", "xdllt", "xdqr")
        ),
    ]


def listed(directory: Path) -> list[Program]:
    """The programs that the file `trials` in @directory names, a line each: a name, the number of
    ranks, and the command as in a shell. They run in @directory. Lines with # are comments."""
    file = directory / LISTING
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as bad:
        raise HikyakuError(
            f"{file} cannot be read: {bad}",
            "write one, a line for each program: lulesh 8 ./lulesh -s 10 -i 40",
        ) from None
    found: dict[str, Program] = {}
    for number, line in enumerate(lines, 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as bad:
            raise HikyakuError(f"{file}, line {number}: {bad}") from None
        if not words:
            continue
        name, ranks, *command = words if len(words) > 1 else [*words, ""]
        if not ranks.isdigit() or not 1 <= int(ranks) <= MAX_RANKS or not command:
            raise HikyakuError(
                f"{file}, line {number}: expected a name, 1 to {MAX_RANKS} ranks and a command",
                "such as: lulesh 8 ./lulesh -s 10 -i 40",
            )
        if name in found:
            raise HikyakuError(f"{file}, line {number}: there are two programs '{name}'")
        found[name] = Program(name, int(ranks), tuple(command), place=directory.resolve())
    return list(found.values())
