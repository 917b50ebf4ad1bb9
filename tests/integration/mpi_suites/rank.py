# SPDX-License-Identifier: BSD-3-Clause
"""Runs mpi4py's own tests as one rank of a job and writes the outcome of each.

    rank.py TESTS RESULTS ABSENT MODULE...

TESTS is the test directory of mpi4py's source distribution. RESULTS is a directory, into which
each rank writes RANK.jsonl. ABSENT are Python modules, with commas between them, that the suite
would test with if they were there. A line is written when a test starts, and another when it ends.
So a test that kills its process, or hangs, is on record too. Status 0 means that the suite came to
its end. The caller compares the outcomes.
"""

import json
import sys
import unittest
from pathlib import Path


class Recorder(unittest.TestResult):
    def __init__(self, path: Path):
        super().__init__()
        self.file = path.open("w", buffering=1)  # by line, so that a crash loses none
        self.outcome = ""

    def _write(self, test: unittest.TestCase, outcome: str) -> None:
        self.file.write(json.dumps([test.id(), outcome]) + "\n")

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.outcome = "passed"
        self._write(test, "unfinished")

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self._write(test, self.outcome)

    def addError(self, test: unittest.TestCase, err: tuple) -> None:
        super().addError(test, err)
        if isinstance(test, unittest.TestCase):
            self.outcome = f"error: {err[0].__name__}"
        else:  # the set-up of a class or module failed: not a test, but the record must have it
            self.file.write(json.dumps([str(test), f"error: {err[0].__name__}"]) + "\n")

    def addFailure(self, test: unittest.TestCase, err: tuple) -> None:
        super().addFailure(test, err)
        self.outcome = "failed"

    def addSubTest(self, test, subtest, err) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.outcome = "failed"

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.outcome = "skipped"

    def addExpectedFailure(self, test: unittest.TestCase, err: tuple) -> None:
        super().addExpectedFailure(test, err)
        self.outcome = "expected failure"

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self.outcome = "unexpected success"


def main() -> None:
    tests, results, absent, *modules = sys.argv[1:]
    sys.dont_write_bytecode = True
    sys.path.insert(0, tests)
    import numpy  # noqa: F401, it needs the module array itself
    from mpi4py import MPI

    for each in absent.split(","):
        sys.modules[each] = None

    recorder = Recorder(Path(results) / f"{MPI.COMM_WORLD.Get_rank()}.jsonl")
    # sorted, because all ranks must run the same tests in the same order
    unittest.defaultTestLoader.loadTestsFromNames(sorted(modules)).run(recorder)


main()
