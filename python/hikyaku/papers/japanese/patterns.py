# SPDX-License-Identifier: BSD-3-Clause
"""Texts of comparisons that have numbers and names in them, in Japanese."""

import re

# A group of a pattern is a text of its own.
PATTERNS = {
    r"below TCP in the best case \((.+) B\)": "最もよい場合に TCP より低い割合（{} B）",
    r"of TCP's, worst size \((.+) B\)": "TCP に対する比、最悪の大きさ（{} B）",
    r"rendezvous is not slower from here on": "ここからランデブが遅くない",
    r"eager, of TCP's eager, worst size": "イーガーの、TCP のイーガーに対する比、最悪の大きさ",
    r"rendezvous, of TCP's rendezvous, worst size": (
        "ランデブの、TCP のランデブに対する比、最悪の大きさ"
    ),
    r"ping-pong beside a flood, of that alone": "大量送信と並ぶ往復時間の、単独に対する比",
    r"the sender is done before a busy receiver is back": (
        "計算中の受信側が戻る前に、送信側が終わる"
    ),
    r"mode (\w+)": "{} モード",
    r"time of ([\w.-]+), of that over TCP": "{} の時間の、TCP に対する比",
    r"results of ([\w.-]+) that differ from TCP's, of (\d+)": (
        "{} の結果 {} 個のうち TCP と異なるもの"
    ),
    r"latency with tags, of that without": "タグありの遅延の、タグなしに対する比",
    r"bandwidth with tags, of that without": "タグありの帯域幅の、タグなしに対する比",
    r"(multicast|binomial) 1 %": "{}（損失 1 %）",
    r"flows on Allreduce's busiest link, ([^;]+)": "Allreduce で最も混むリンクのフロー数、{}",
    r"hashing's (worst|mean)": "ハッシュの{}",
    r"of (hashing's \w+|least possible)": "{}に対する比",
    r"(spread|least possible) of ([^;]+)": "{}、{}に対する比",
    r"time of an? (Bcast|Allreduce)( by multicast)?, of that by ([^;]+)": (
        "{}{}の時間の、{}に対する比"
    ),
    r"time of the slowest job, of that by ([^;]+)": "最も遅いジョブの時間の、{}に対する比",
    r"(ring|doubling) (worst|middle|best)": "{}の{}",
    r"flow entries of a job of (\d+) ranks, switches (edge|inside)": (
        "{} ランクのジョブのフローエントリ数、{}のスイッチ"
    ),
    r"of 1000 frames a second, lost when ([^;]+) is cut": (
        "毎秒 1000 フレームのうち、{}の切断で失われるもの"
    ),
    r"(\d+) doubles": "倍精度数 {} 個",
    r"(\d+) processes": "{} プロセス",
    r"(\d+) ranks": "{} ランク",
    r"ports of a rank: (\d+)": "ランクあたり {} ポート",
    r"theirs: (\S+) with 6 processes, (\S+) with 192": "論文: 6 プロセスで {}、192 プロセスで {}",
    r"theirs (\S+) of (\S+) µs; ours (\S+) of (\S+)": "論文: {} / {} µs、今回: {} / {}",
    r"messages as computed, counted by (\d+) real ranks": (
        "実際の {} ランクが数えたメッセージが計算と一致"
    ),
    r"difference of measured from simulated": "測定とシミュレーションの差の割合",
    r"links of (\d+) Gb/s": "{} Gb/s のリンク",
    r"(\d+) and (\d+) µs": "{} µs と {} µs",
    r"(\d+) steps, (\S+) ms": "{} 反復、{} ms",
    r"emulated NICs, (\w+), (\d→\d)([^;]*)": "エミュレートした NIC、{}、{}{}",
    r", times l3fwd": "、l3fwd に対する比",
    r", delay, median": "、遅延の中央値",
    r", CPU of the host": "、ホストの CPU 時間",
    r"l3fwd without wires, (\d→\d)": "配線なしの l3fwd、{}",
    r"packets in (\w+)": "パケットの場所は {}",
    r"headers, (\d+)-byte frames at 40 Gbit/s": "ヘッダ、{} バイトのフレーム、40 Gbit/s",
    r"one link, DMA write": "一つのリンク、DMA 書き込み",
    r"both links, (bounce|p2p write|p2p read)": "両方のリンク、{}",
    r"DPDK, times TCP with a send\(\) a (message|burst)": (
        "DPDK の、TCP に対する比（{}ごとに send()）"
    ),
    r"repetitions: (\d+)": "繰り返し {} 回",
    r"repetitions: (\d+) by a plain loop": "繰り返し {} 回、通常のループ",
    r"(\w+): handled at (\S+) times the closed loop's rate, of it": (
        "{}: 閉ループの {} 倍の負荷で処理した量の、閉ループに対する比"
    ),
    r"DPDK at (\S+) times the closed loop's rate, times TCP": (
        "閉ループの {} 倍の負荷での DPDK の、TCP に対する比"
    ),
    r"rate with at most (\S+) % lost in the best repeat": (
        "最もよい回の損失が {} % 以下の、最大の速度"
    ),
    r"(\S+) million/s": "{} 百万/秒",
    r"(y = ax \+ b|.*regression|linear SVM|16 features)(: .*)": "{}{}",
    r": time of one node": ": 単独ノードの時間",
    r": (\d+) nodes by (\S+)": ": {} ノード、{} による時間",
    r": (\d+) nodes by (\S+): rows": ": {} ノード、{}、処理した行数",
    r"frames with wrong data; (.*); (CPU: .*)": "誤ったデータのフレーム、{}、{}",
    r"rings on the device; (.*); (CPU: .*)": "デバイス上のリング、{}、{}",
    r"(nic|nvme)( \w+)? (?:to|from|from and to) (main memory|\w+)(, rings too)?": "{}{}、{}{}",
    r"(nic|nvme)( \w+)? (?:to|from|from and to) (pop:\S+?,?\S*)(, rings too)?": "{}{}、{}{}",
    r"CPU: (\w+)": "CPU の負荷は{}",
    r"CPU: (\w+), (\d+) threads": "CPU の負荷は{}、{} スレッド",
    r"(\d+) B": "{} B",
}

TERMS = {
    "worst": "最悪", "mean": "平均", "middle": "中間", "best": "最良",
    "least possible": "可能な最小",
    "ring": "リング", "doubling": "再帰倍加", "edge": "端", "inside": "内部",
    "next link": "隣のリンク", "link behind the spine": "スパインの先のリンク",
    "message": "メッセージ", "burst": "まとまり", " by multicast": "（マルチキャスト）",
    "in blocks": "連続する配置", "in turn": "交互の配置",
    "tcp": "TCP", "main": "主記憶",
    "times as fast as one node": "単独ノードに対する速さの比",
    "times as fast as TCP": "TCP に対する速さの比",
    "of those of one node": "単独ノードに対する比", "16 features": "16 個の特徴量",
    "nothing": "なし", "read": "読み出し", "write": "書き込み", "network": "学習",
    "train": "学習", "main memory": "主記憶", ", rings too": "、リングも",
    " transmit": " 送信", " receive": " 受信", " both": " 送受信",
    "two jobs worst": "二つのジョブ、最悪", "two jobs best": "二つのジョブ、最良",
    "one program": "一つのプログラム",
    "y = ax + b": "y = ax + b", "regression": "線形回帰",
    "logistic regression": "ロジスティック回帰", "linear SVM": "線形 SVM",
}  # fmt: skip

# Names and numbers are the same in both languages.
SAME = re.compile(
    r"|[\d.,+–-]+[kMG]?( [kMG]?B)?|\W*[A-Z][\w.+-]*|[a-z]\w*[_:\d]\w*|%|[µnm]?s|[KMG]i?B|Gbit/s"
    r"|\d→\d|dpdk|socket|udp|raw|l3fwd|bounce|p2p( \w+)?|pktpit|memif|veth|tcp|hikyaku|halo|mpi"
    r"|tcp:batch=1|af_xdp|nic|pop:\S+"
    r"|split|inline|hybrid|daemon|main|ivshmem|nvme|uio|vfio|\d+ (Mbit/s|Gb/s)"
    r"|netpipe|lammps|hpcc|scalapack-\w+"
    r"|Open vSwitch"
)
