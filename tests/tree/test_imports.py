# SPDX-License-Identifier: BSD-3-Clause
"""Each module of the package can be the first one that is imported: there is no circle. The command
line imports only the command that was typed."""

import importlib
import os
import subprocess
import sys

from hikyaku.checkout import ROOT

PACKAGE = ROOT / "python/hikyaku"


def test_no_module_needs_that_another_is_imported_first():
    names = sorted(
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
        if path.name != "__main__.py"
    )
    assert len(names) > 100
    child = os.fork()  # other tests keep their modules
    if child == 0:
        status = 1
        try:
            for name in names:
                for other in [m for m in sys.modules if m.partition(".")[0] == "hikyaku"]:
                    del sys.modules[other]
                try:
                    importlib.import_module(name)
                except ImportError as bad:
                    raise AssertionError(f"{name}: {bad}") from bad
            status = 0
        except AssertionError as bad:
            os.write(2, f"{bad}\n".encode())
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def imported_by(program: str) -> set[str]:
    """The modules that a process has when it has run @program."""
    argv = [sys.executable, "-c", f"import sys; {program}; print(*sys.modules)"]
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        argv, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_a_command_does_not_import_the_others():
    modules = imported_by("from hikyaku.cli.main import main; main.commands['env']")
    assert "hikyaku.cli.env" in modules
    assert not modules & {"hikyaku.cli.bench", "hikyaku.cli.lab", "hikyaku.cli.sdn"}


def test_mpirun_imports_neither_tables_nor_the_controllers_client():
    mpirun = "from hikyaku.cli.main import main; main.commands['lab'].commands['mpirun']"
    modules = imported_by(f"{mpirun}; import hikyaku.lab")
    assert {"hikyaku.cli.lab.run", "hikyaku.lab.run"} <= modules
    assert not modules & {"rich.console", "hikyaku.cli.lab.up", "hikyaku.sdn.client"}
