# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`, several_time: the hashings that it chooses, and how it judges. Nothing is sent."""

import json

from hikyaku.bench.sdn import several, times
from hikyaku.bench.sdn.run import row
from hikyaku.lab.wiring import parse
from hikyaku.sdn.tag import Function, Tag, from_mac


def test_rings_meet_in_the_worst_case_alone():
    for seed in range(5):
        worst, best = several.cases(seed).values()
        assert (several.meeting(worst), several.meeting(best)) == (2, 1)
    assert several.cases(3) == several.cases(3)


def test_each_job_has_rules_of_its_own(tmp_path):
    file = tmp_path / "limited.json"
    file.write_text(json.dumps(times.topology()))
    wiring = parse(str(file))
    for job, routing in several.cases(1)[several.WORST].items():
        lines = times.flows(wiring, several.JOBS[job], routing, Function.ALLTOALL, job).values()
        matches = [line.split("dl_dst=")[1].split(",")[0] for each in lines for line in each]
        assert len(matches) == len(routing) == 8
        for source, target in routing:
            for number in several.JOBS:
                tag = int(Tag(number, Function.ALLTOALL, source, target))
                pairs = [map(from_mac, each.split("/")) for each in matches]
                assert sum(tag & mask == value for value, mask in pairs) == (number == job)


def test_goals():
    cases = (several.WORST, several.BEST, several.ONE_PROGRAM)
    for values, met in (((0.6, 1.0, 0.9), [True] * 3), ((0.7, 1.1, 1.1), [False] * 3)):
        rows = [
            row("several_time", f"{times.SPREAD}, {case}", 8, 1, times.RATIO, [value])
            for case, value in zip(cases, values, strict=True)
        ]
        assert [goal["met"] for goal in several.SEVERAL_TIME.goals(rows)] == met
