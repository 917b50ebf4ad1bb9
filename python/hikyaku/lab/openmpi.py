# SPDX-License-Identifier: BSD-3-Clause
"""Open MPI 4.1 and 5.0: its options, its directories, its settings.

Settings are passed to mpirun as environment variables (OMPI_MCA_name), never as options. In Open
MPI an option overrides the environment, so the user's command line wins.
"""

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from .. import hostd, mpi
from ..called import install_deps
from ..checkout import ROOT, built
from ..errors import HikyakuError
from ..process import run
from .options import Grammar

# Options of mpirun by their number of values; every other option has none.
_ONE_VALUE = """
    H host hostfile machinefile default-hostfile c n np N x am tune prefix wd wdir path app
    bind-to map-by rank-by ppr npernode npersocket cpu-list cpu-set cpus-per-proc cpus-per-rank
    rf rankfile cf cartofile debugger hnp launch-agent max-vm-size max-restarts ompi-server
    output-filename personality preload-files report-pid report-uri sstore-load stdin timeout
    xml-file xterm wait-for-server server-wait-time
"""
_VALUES = dict.fromkeys(_ONE_VALUE.split(), 1) | dict.fromkeys(("mca", "gmca"), 2)
HOST = {"H", "host"}
RANKFILE = {"rf", "rankfile"}
HOSTS = HOST | {"hostfile", "machinefile", "default-hostfile"} | RANKFILE


GRAMMAR = Grammar("mpirun", _VALUES, {"np", "n", "c"})
split_command, names, option = GRAMMAR.split_command, GRAMMAR.names, GRAMMAR.option
rank_count = GRAMMAR.rank_count


def check_hosts(options: list[str], nodes: list[str]) -> None:
    """Raises an error if mpirun's @options name a host that is none of @nodes."""
    for each in (option(options, HOST) or "").split(","):
        name = each.partition(":")[0]
        if name and name not in nodes:
            raise HikyakuError(
                f"--host {each}: the lab has no node '{name}'", f"use some of: {', '.join(nodes)}"
            )


def check_program(options: list[str], program: str) -> None:
    """Raises an error if @program, which mpirun starts, is not there. With some of its @options
    mpirun looks elsewhere."""
    elsewhere = option(options, {"wdir", "wd", "path", "preload-files"}) is not None
    if elsewhere or shutil.which(program) is not None:
        return
    if "/" not in program:
        fix = f"give its path, such as ./{program}"
        if options and options[-1].startswith("-"):  # a mistyped option, with its value?
            fix += f"; or leave out '{options[-1]} {program}', which is not an option of mpirun"
        raise HikyakuError(f"the program '{program}' is not in PATH", fix)
    path = Path(program)
    if not path.exists():
        raise HikyakuError(f"there is no program '{program}'", _instead(path))
    if path.is_dir():
        raise HikyakuError(f"'{program}' is a directory, not a program", _inside(path))
    fix = "give the path of a program"
    if path.suffix == ".py":
        python = ROOT / ".venv/bin/python"
        fix = f"let Python run it: {python if python.exists() else 'python3'} {program}"
    elif _is_code(path):
        fix = f"chmod +x {shlex.quote(program)}"
    raise HikyakuError(f"the program '{program}' is not an executable file", fix)


def _programs(directory: Path) -> list[str]:
    if not directory.is_dir():
        return []
    return [p.name for p in directory.iterdir() if p.is_file() and os.access(p, os.X_OK)]


def _instead(path: Path) -> str:
    """A fix that names the programs whose names resemble @path's, in the same directory."""
    near = get_close_matches(path.name, _programs(path.parent), n=3)
    if near:
        return f"use {' or '.join(_typed(path.with_name(name)) for name in near)}"
    if path.parent.is_dir():
        return "give the path of a program"
    there = next(each for each in path.parents if each.is_dir())
    missing = path.relative_to(there).parts[0]
    near = get_close_matches(missing, [each.name for each in there.iterdir()], n=1)
    other = there / near[0] / path.relative_to(there / missing) if near else None
    return f"use {_typed(other)}" if other and other.exists() else f"see: ls {there}"


def _typed(path: Path) -> str:
    """@path as mpirun takes it: a name alone would be looked for in PATH."""
    return str(path) if len(path.parts) > 1 else f"./{path}"


def _inside(directory: Path) -> str:
    """A fix that names the programs in @directory; the one with its name first."""
    there = sorted(_programs(directory), key=lambda name: (name != directory.name, name))
    if not there:
        return "give the path of a program"
    return f"use {' or '.join(str(directory / name) for name in there[:3])}"


def parameters(options: list[str]) -> dict[str, str]:
    """The MCA parameters that mpirun's @options set."""
    return {v[0]: v[1] for name, v in GRAMMAR.each(options) if name in ("mca", "gmca")}


def check_parameters(options: list[str]) -> None:
    """Raises an error if mpirun's @options set a parameter of Hikyaku that does not exist. Open MPI
    ignores such a one."""
    for name, value in parameters(options).items():
        _check_parameter(name)
        if name in ("btl", "coll"):
            _check_components(name, value)


def exported(options: list[str]) -> dict[str, str]:
    """The variables to which mpirun's @options give values."""
    given = [values[0] for name, values in GRAMMAR.each(options) if name == "x" and values]
    return {name: value for name, is_set, value in (v.partition("=") for v in given) if is_set}


def check_exports(options: list[str]) -> None:
    """Raises an error if @options preload nothing, or a file that does not exist. ld.so goes on
    without it, and the ranks would run without the promoter. Nothing comes of a variable that the
    shell does not know, such as a misspelt one."""
    preloaded = exported(options).get("LD_PRELOAD")
    if preloaded == "":
        raise HikyakuError(
            "-x LD_PRELOAD= preloads nothing: the variable in it is not set in this shell",
            'eval "$(hikyaku env)", which sets HIKYAKU_PROMOTER, and check the spelling',
        )
    elsewhere = Path(option(options, {"wdir", "wd"}) or "")
    for path in re.split("[ :]", preloaded or ""):
        # ld.so replaces $ORIGIN, $LIB and $PLATFORM
        if "/" in path and "$" not in path and not (elsewhere / path).exists():
            raise HikyakuError(
                f"-x LD_PRELOAD={preloaded}: there is no file '{path}'",
                'eval "$(hikyaku env)", then: -x LD_PRELOAD=$HIKYAKU_PROMOTER',
            )


def _check_parameter(name: str) -> None:
    framework, _, rest = name.partition("_")
    if framework not in ("btl", "coll") or not rest.startswith("hikyaku_"):
        return
    known = _our_parameters(framework, component_path())
    if known and name not in known:
        near = get_close_matches(name, known, n=2)
        fix = f"use {' or '.join(near)}" if near else "see: man btl_hikyaku"
        raise HikyakuError(f"Hikyaku has no parameter '{name}'", fix)


def _check_components(framework: str, value: str) -> None:
    """Raises an error if @value, a list of components, has a misspelt name of ours. Open MPI would
    print many lines without this cause."""
    for name in value.removeprefix("^").split(","):
        if name != "hikyaku" and get_close_matches(name, ["hikyaku"], cutoff=0.75):
            raise HikyakuError(
                f"--mca {framework} {value}: there is no component '{name}'", "use hikyaku"
            )


@cache  # ompi_info takes a quarter of a second, and some processes run hundreds of jobs
def _our_parameters(framework: str, path: str) -> set[str]:
    listing = run(
        [
            *("env", f"OMPI_MCA_mca_base_component_path={path}"),
            *("ompi_info", "--param", framework, "hikyaku", "--level", "9", "--parsable"),
        ]
    )
    return set(re.findall(rf":param:({framework}_hikyaku_\w+):", listing))


def _is_code(path: Path) -> bool:
    """Would the kernel run @path if it were executable? A source file is not."""
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((b"\x7fELF", b"#!"))
    except OSError:
        return False


@dataclass
class LabOptions:
    """The options of `lab mpirun` that are the lab's own."""

    tcp: bool = False
    lab: str | None = None
    mode: str | None = None
    pool: str | None = None
    tag: bool = False
    attach: str | None = None
    mpi: str | None = None
    help: bool = False


PORT_PARAMETER = "btl_hikyaku_port"
# The MCA parameter that selects the polling mode, and its values.
MODE_PARAMETER = "btl_hikyaku_mode"
MODES = ("inline", "hybrid", "split", "daemon", "auto")
SWITCH_MODES = ("split", "daemon")  # hikyakud polls, and passes frames on to the ranks


_OUR_VALUES = ("--mode", "--attach", "--pool", "--mpi")
_OURS = ("--tcp", "--tag", "--help", "--lab", *_OUR_VALUES)


def _our_value(word: str, value: str) -> str | None:
    """The value of the lab's option @word, checked."""
    if word == "--mode" and value not in MODES:
        raise HikyakuError(f"there is no mode '{value}'", f"--mode {', '.join(MODES)}")
    if word != "--mpi":
        return value
    if value == "openmpi":
        return None
    mpi.check_name(value, ("openmpi", *mpi.BY_OFI))
    return value


def take_lab_options(arguments: list[str]) -> tuple[LabOptions, list[str]]:
    """Separates the lab's own options from mpirun's arguments.

    Arguments after the program's name belong to the program, even if the lab has such an option.
    """
    flags = LabOptions()
    rest = []
    i = 0
    while i < len(arguments) and arguments[i].startswith("-"):
        word = arguments[i]
        count = 1 + _VALUES.get(word.lstrip("-"), 0)
        if word == "--tcp":
            flags.tcp = True
        elif word == "--tag":
            flags.tag = True
        elif word in ("--help", "-h"):
            flags.help = True
        elif word in _OUR_VALUES and arguments[i + 1 : i + 2]:
            setattr(flags, word.lstrip("-"), _our_value(word, arguments[i + 1]))
            count = 2
        elif word == "--lab" or word.startswith("--lab="):
            value = word.partition("=")[2] or "".join(arguments[i + 1 : i + 2])
            if not value:
                raise HikyakuError("option '--lab' lacks its value")
            flags.lab = value
            count = 1 if "=" in word else 2
        else:
            _check_spelling(word)
            rest += arguments[i : i + count]
        i += count
    return flags, rest + arguments[i:]


def _check_spelling(word: str) -> None:
    """mpirun would take the value of a misspelt option for the program."""
    meant = [] if word.lstrip("-") in _VALUES else get_close_matches(word, _OURS, cutoff=0.75)
    if meant and word not in _OURS:
        raise HikyakuError(f"mpirun has no option '{word}'", f"{meant[0]}")


def pool_settings(flags: LabOptions) -> dict[str, str]:
    if flags.pool is None:
        return {}
    if flags.tcp:
        raise HikyakuError(
            f"--pool {flags.pool} is a setting of the BTL, and --tcp does not use the BTL",
            "leave out one of them",
        )
    return {"OMPI_MCA_btl_hikyaku_pool": flags.pool}


@cache
def default_component_path() -> str:
    """The directory of the components that came with Open MPI.

    mca_base_component_path replaces this directory, so the setting must repeat it.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OMPI_MCA_")}
    argv = ["ompi_info", "--parsable", "--level", "9", "--param", "mca", "base"]
    for line in run(argv, env=clean).splitlines():
        head, _, value = line.partition(":mca_base_component_path:value:")
        if head != line and value:
            # in quotes, because the value has colons; Open MPI 5 complains of absent directories
            directories = value.strip('"').split(":")
            return ":".join(each for each in directories if Path(each).is_dir())
    raise HikyakuError("ompi_info does not print where Open MPI's components are", install_deps())


def component_path(component: Path | None = None) -> str:
    component = component or built("plugins/openmpi/mca_btl_hikyaku.so")
    return f"{component.parent}:{default_component_path()}"


@cache  # some processes run hundreds of jobs
def _pmix_settings(component: Path) -> dict[str, str]:
    """Open MPI 5 gives its component path to PMIx, which looks at each file there and complains.
    So PMIx gets its own."""
    for line in run(["ldd", str(component)]).splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.startswith("libpmix."):
            own = Path(path.partition(" ")[0]).resolve().parent / "pmix"
            return {"PMIX_MCA_mca_base_component_path": str(own)} if own.is_dir() else {}
    return {}


def fabric_settings(mode: str | None = None) -> dict[str, str]:
    """The settings that make any mpirun use the built BTL. @mode: one of MODES."""
    polling = {f"OMPI_MCA_{MODE_PARAMETER}": mode} if mode else {}
    return (
        polling
        | _pmix_settings(built("plugins/openmpi/mca_btl_hikyaku.so"))
        | {
            # Always set: mpirun's options may select a mode that needs it. An environment variable
            # such as HIKYAKU_DAEMON would not reach other nodes.
            "OMPI_MCA_btl_hikyaku_daemon_program": hostd.program(),
            "OMPI_MCA_mca_base_component_path": component_path(),
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "hikyaku,vader,self",
        }
    )


def promoter_settings() -> dict[str, str]:
    """The settings with which a program preloads the promoter (docs/halo.md).

    Set them in the program's environment, or by mpirun -x: mpirun itself is not an MPI program.
    The installed name is a link. The loader would look for our libraries beside the link.
    """
    return {"LD_PRELOAD": str(built("systems/halo/libhikyaku_halo.so").resolve())}


def with_faults(faults: str, seed: int, argv: list[str]) -> list[str]:
    """@argv in a shell that adds @faults to the port spec, with a different seed for each rank."""
    variable = "OMPI_MCA_btl_hikyaku_port"
    spec = f"${variable};faults={faults},seed=$(({seed} + OMPI_COMM_WORLD_RANK))"
    return ["sh", "-c", f'export {variable}="{spec}"; exec "$@"', "sh", *argv]


def tag_settings(job: int, registrar: str) -> dict[str, str]:
    """The settings that make ranks of any mpirun tag their own frames. They also need the
    registrar's environment."""
    return {
        "OMPI_MCA_btl_hikyaku_tag": str(job),
        "OMPI_MCA_btl_hikyaku_registrar": registrar,
    }


def tcp_settings(interface: str) -> dict[str, str]:
    return {
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "tcp,vader,self",
        "OMPI_MCA_btl_tcp_if_include": interface,
    }
