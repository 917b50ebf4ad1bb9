# SPDX-License-Identifier: BSD-3-Clause
"""The Python packages of others that Hikyaku imports, and the fix where one is missing."""

from .called import make
from .checkout import INSTALLED, ROOT
from .errors import HikyakuError

# The names that requirements.in and requirements-demo.in have, with what needs each.
NEEDED = {
    "click": "hikyaku",
    "rich": "hikyaku",
    "matplotlib": "plots",
    "numpy": "plots, hikyaku learn",
    "aiohttp": "hikyaku sdn",
    "mpi4py": "Python programs with MPI",
    "os-ken": "hikyaku sdn",
    "prometheus-client": "hikyaku sdn, hikyaku stats",
    "pydantic": "hikyaku sdn",
    "scikit-learn": "hikyaku.learn",
}
# Packages whose modules have other names.
MODULES = {"sklearn": "scikit-learn", "os_ken": "os-ken", "prometheus_client": "prometheus-client"}


def absent() -> list[str]:
    """The packages that this Python does not have."""
    from importlib.metadata import PackageNotFoundError, version

    missing = []
    for name in NEEDED:
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    return missing


def fix(*names: str) -> str:
    """The command that installs the packages @names for the Python that `hikyaku` runs with."""
    if INSTALLED and not (ROOT / ".venv").exists():  # the machine's own Python
        return f"python3 -m pip install {' '.join(names)}"
    return make()


def missing(error: ImportError) -> HikyakuError | None:
    """@error in one sentence, if it is about a package of NEEDED."""
    module = (error.name or "").partition(".")[0]
    name = MODULES.get(module, module)
    if name not in NEEDED:
        return None
    return HikyakuError(f"the Python package {name} is not installed", fix(name))
