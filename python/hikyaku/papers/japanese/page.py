# SPDX-License-Identifier: BSD-3-Clause
"""The page's own texts, wires and units, in Japanese."""

TEXTS = {
    # the page
    "The five papers beside Hikyaku": "五つの論文と Hikyaku",
    "Figures of five papers, as their authors reported them, beside those of {}.": (
        "五つの論文の著者が報告した値を、{} に測った値と並べます。"
    ),
    "*Ratio* is ours, divided by theirs.": "*比* は、今回の値を論文の値で割ったものです。",
    "Goals compare ratios, since the authors had other hardware.": (
        "著者の計算機はここのものと異なるので、目標は比で比べます。"
    ),
    "No figure is left out because it came out badly.": "結果が悪い図表も省きません。",
    "**This was a quick run: few repeats, and few sizes.**": (
        "**これは短い測定です。繰り返しも大きさの種類も少なくしました。**"
    ),
    "**The machine was busy with other work: do not trust times or ratios.**": (
        "**計算機はほかの仕事で混んでいたので、時間も比も信頼できません。**"
    ),
    "Other work does not change counts.": "個数はほかの仕事に影響されません。",
    "These commands measure everything, and write this page again:": (
        "次のコマンドは、すべてを測り、このページを書き直します。"
    ),
    "The machine": "計算機",
    "{} cores": "{} コア",
    "commit {}": "コミット {}",
    "processor": "プロセッサ",
    "memory": "メモリ",
    "system": "システム",
    "time, and load at the start": "時刻と、開始時の負荷",
    "This machine has no NIC and no network switch of its own.": (
        "この計算機には、専用の NIC もネットワークスイッチもありません。"
    ),
    "kind": "種類",
    "meaning": "意味",
    "virtual": "仮想",
    "emulated": "エミュレート",
    "simulated": "シミュレーション",
    "computed": "計算",
    "Programs run at their own speed. Wires are memory or kernel links, and not cables.": (
        "プログラムは本来の速さで動きます。配線はケーブルではなく、メモリかカーネルのリンクです。"
    ),
    "A process or QEMU takes the part of a device. Bytes and addresses count.": (
        "プロセスか QEMU が装置の役をします。意味を持つのはバイトとアドレスです。"
    ),
    "Our engine runs in virtual time. Links and network switch are computed.": (
        "Hikyaku のエンジンを仮想の時間で動かします。リンクとスイッチは計算で模します。"
    ),
    "From a topology or a model. No packet is sent.": (
        "トポロジかモデルから求めます。パケットは送りません。"
    ),
    "All figures": "すべての図表",
    "figure": "図表",
    "wire": "配線",
    "goals": "目標",
    "met": "達成",
    "**not met**": "**未達成**",
    "none": "なし",
    "**a gap**": "**空欄**",
    "This run left out:": "今回の測定では次のものを省きました。",
    "**What bounds it.**": "**限界の理由。**",
    "Where we lose": "負けているところ",
    "These figures do not reach their goals:": "次の値は目標に届きません。",
    "Every figure with a goal reaches it.": "目標のある図表は、すべて目標に届きました。",
    "None of these figures has a goal.": "目標のある図表はありません。",
    "These figures have no measurement, since their commands failed:": (
        "次の図は、コマンドが失敗したため測定がありません:"
    ),
    "reason": "理由",
    "paper": "論文",
    "here": "今回",
    "Plot of {}": "{} の図",
    "ratio": "比",
    "**Not measured**.": "**測っていません**。",
    "This command failed:": "次のコマンドが失敗しました。",
    "Wire: {}.": "配線: {}。",
    "No wire.": "配線なし。",
    "Kind: {}.": "種類: {}。",
    "Measured in {} s by:": "次のコマンドで {} 秒かけて測りました。",
    # wires, and units
    "QEMU's NICs": "QEMU の NIC",
    "bytes": "バイト",
    "entries": "個",
    "frames": "フレーム",
    "packets": "パケット",
    "figures": "個",
    "million/s": "百万/秒",
    "million frames/s": "百万フレーム/秒",
    "ns a packet": "ns/パケット",
    "ns a frame": "ns/フレーム",
    "Only hardware shows it. The commands:": "これを示すのは実機だけです。コマンド:",
    "checked": "確認済み",
}
