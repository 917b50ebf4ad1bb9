#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fabtests.py: runs libfabric's own tests, fabtests, over the provider, between two nodes of a lab.

DIR has the programs of fabtests, of the version of the libfabric that they load. These are the sets
quick and standard of its runfabtests.sh, as far as they are for endpoints of type FI_EP_RDM. TEST
is a part of a name, and chooses some.

Server and client find each other by TCP (-E), since names of our endpoints are not names of hosts.
With --wire memif, fi_rdm_tagged_peek fails: it does not send again after -FI_EAGAIN, which it gets
until both ends of the wire are there.
"""

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from hikyaku.lab import Lab  # noqa: E402
from hikyaku.ofi import provider_settings  # noqa: E402
from hikyaku.process import stop, wait_until  # noqa: E402

LIMIT_S = 60
READY_S = 10
LISTENS = f":{3000:04X} 00000000:0000 0A"  # in /proc/net/tcp: the port of -E, and its state

ALONE = ["fi_dom_test -n 2", "fi_eq_test", "fi_cq_test", "fi_mr_test", "fi_cntr_test"]
PAIRS = """
fi_av_xfer -e rdm
fi_cq_data -e rdm
fi_poll -t queue
fi_poll -t counter
fi_rdm
fi_rdm -U
fi_rdm_rma_event
fi_shared_ctx
fi_rdm_tagged_peek
fi_scalable_ep
fi_rdm_shared_av
fi_multi_mr -e rdm -V
fi_multi_ep -e rdm -v
fi_recv_cancel -e rdm -V
fi_unexpected_msg -e rdm -I 10
fi_bw -e rdm -v -T 1
fi_bw -e rdm -v -T 1 -U
fi_rdm_multi_client -C 10 -I 5
fi_rma_bw -e rdm -o write
fi_rma_bw -e rdm -o write -U
fi_rma_bw -e rdm -o read
fi_rma_bw -e rdm -o read -U
fi_rma_bw -e rdm -o writedata
fi_rma_bw -e rdm -o writedata -U
fi_rdm_atomic -o all -I 1000
fi_rdm_atomic -o all -I 1000 -U
fi_rdm_cntr_pingpong
fi_multi_recv -e rdm
fi_rdm_pingpong
fi_rdm_pingpong -U
fi_rdm_pingpong -v
fi_rdm_pingpong -v -U
fi_rdm_pingpong -k
fi_rdm_pingpong -k -U
fi_rdm_tagged_pingpong
fi_rdm_tagged_pingpong -U
fi_rdm_tagged_pingpong -v
fi_rdm_tagged_bw
fi_rdm_tagged_bw -U
fi_rdm_tagged_bw -v
"""

# The manual pages make these optional.
OPTIONAL = {
    "fi_poll": "poll sets",
    "fi_rdm_rma_event": "counters and events of remote operations (FI_RMA_EVENT)",
    "fi_multi_mr": "the same",
    "fi_shared_ctx": "contexts that endpoints share",
    "fi_scalable_ep": "scalable endpoints",
    "fi_rdm_shared_av": "address vectors that processes share",
    "fi_rdm_pingpong -k": "buffers with room for the provider in front (FI_MSG_PREFIX)",
}


@dataclass
class Outcome:
    test: str
    result: str  # passed, lacks (the program says so), failed
    text: str = ""


class Tests:
    def __init__(self, lab: Lab, programs: Path, wire: str):
        self._lab, self._programs = lab, programs
        self._wires = lab.node_directory("node0") / "wires"
        self._wires.mkdir(mode=0o700, exist_ok=True)
        port = f"memif:dir={self._wires}" if wire == "memif" else "udp:addr=tcp0"
        self._env = {**os.environ, **provider_settings(), "FI_HIKYAKU_PORT": port}
        self._env |= {"FI_PROVIDER": "hikyaku", "FI_HIKYAKU_YIELD": "1"}

    def _start(self, node: str, words: list[str]) -> subprocess.Popen:
        argv = [str(self._programs / words[0]), "-p", "hikyaku", *words[1:]]
        return subprocess.Popen(
            self._lab.exec_argv(node, argv),
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _until_it_listens(self, server: subprocess.Popen) -> None:
        table = Path(f"/proc/{server.pid}/net/tcp")  # of its node

        def listens() -> bool:
            try:
                return LISTENS in table.read_text()
            except OSError:  # it has ended just now
                return False

        wait_until(
            "the server to listen, or to end",
            lambda: server.poll() is not None or listens(),
            READY_S,
        )

    def _end(self, test: str, *started: subprocess.Popen) -> Outcome:
        texts, codes = [], []
        end = time.monotonic() + LIMIT_S
        for child in started:
            try:
                text, _ = child.communicate(timeout=max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                stop(child)
                text = child.communicate()[0] + f"\ndid not end within {LIMIT_S} s"
            texts.append(text)
            codes.append(child.returncode)
        said = "\n".join(text.strip()[-1500:] for text in texts)
        if all(code == 0 for code in codes):
            return Outcome(test, "passed")
        lacks = next((why for name, why in OPTIONAL.items() if test.startswith(name)), None)
        # a program of fabtests ends by ENODATA or ENOSYS if the provider lacks what it tests
        if lacks and any(code in (61, 38) for code in codes):
            return Outcome(test, "lacks", lacks)
        return Outcome(test, "failed", f"status {codes}\n{said}")

    def alone(self, test: str) -> Outcome:
        return self._end(test, self._start("node0", test.split()))

    def pair(self, test: str) -> Outcome:
        words = [*test.split(), "-E"]
        server = self._start("node0", words)
        self._until_it_listens(server)
        client = self._start("node1", [*words, self._lab.node("node0").tcp_ip])
        return self._end(test, client, server)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--wire", choices=["memif", "udp"], default="udp")
    parser.add_argument("tests", nargs="*")
    args = parser.parse_intermixed_args()
    counts: dict[str, int] = {}
    with Lab.up(2, args.wire, name="fabtests") as lab:
        tests = Tests(lab, args.directory, args.wire)
        for run, lines in ((tests.alone, ALONE), (tests.pair, PAIRS.strip().splitlines())):
            for line in lines:
                if args.tests and not any(part in line for part in args.tests):
                    continue
                outcome = run(line)
                counts[outcome.result] = counts.get(outcome.result, 0) + 1
                print(f"{outcome.result:8}{line}", flush=True)
                if outcome.text:
                    print("        " + outcome.text.replace("\n", "\n        "), flush=True)
    print(", ".join(f"{n} {result}" for result, n in sorted(counts.items())))
    return 1 if counts.get("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
