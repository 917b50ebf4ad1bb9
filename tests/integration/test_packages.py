# SPDX-License-Identifier: BSD-3-Clause
"""A Python package that is missing is answered by one sentence, with the command that installs
it."""

import os
import re
import sys

import pytest

from execute import execute
from hikyaku import packages
from hikyaku.checkout import ROOT
from hikyaku.doctor import software


def hidden(tmp_path, module: str) -> dict[str, str]:
    """An environment in which Python does not find @module."""
    (tmp_path / f"{module}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{module}'\", name='{module}')\n"
    )
    return os.environ | {"PYTHONPATH": str(tmp_path)}


def test_the_list_is_that_of_the_requirements():
    text = "".join(
        (ROOT / name).read_text() for name in ("requirements.in", "requirements-demo.in")
    )
    assert set(re.findall(r"^[a-z][\w-]*$", text, re.MULTILINE)) == set(packages.NEEDED)


@pytest.mark.parametrize(
    ("module", "words", "package"),
    [
        ("os_ken", ["sdn", "run"], "os-ken"),
        ("aiohttp", ["sdn", "run"], "aiohttp"),
        ("matplotlib", ["sim", "incast", "--hosts", "3", "--time-ms", "1", "--plot", "x.png"], ""),
    ],
)
def test_a_command_that_needs_it(hikyaku, tmp_path, module, words, package):
    environment = hidden(tmp_path, module)
    done = execute([*hikyaku, *words], code=1, timeout=60, cwd=tmp_path, env=environment)
    fix = f"make -C {ROOT}"
    sentence = f"hikyaku: the Python package {package or module} is not installed; fix: {fix}"
    assert done.stderr.splitlines()[-1] == sentence
    assert "Traceback" not in done.stderr


def test_an_estimator(tmp_path):
    program = "from hikyaku.learn import GossipClassifier"
    environment = hidden(tmp_path, "sklearn")
    environment["PYTHONPATH"] += f":{ROOT / 'python'}"
    done = execute([sys.executable, "-c", program], code=1, timeout=60, env=environment)
    assert "the Python package scikit-learn is not installed; fix: make" in done.stderr


def test_another_module_stays_a_defect():
    assert packages.missing(ModuleNotFoundError("", name="hikyaku.none")) is None


def test_doctor(monkeypatch):
    assert [f.state for f in software.python()] == ["ok"]
    monkeypatch.setattr(packages, "NEEDED", {"no-such-package": "hikyaku sdn"})
    (finding,) = software.python()
    assert (finding.state, finding.fix) == ("missing", "make")
    assert finding.text == "no-such-package is not installed, for hikyaku sdn"
