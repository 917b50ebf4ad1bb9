# SPDX-License-Identifier: BSD-3-Clause
"""The texts of papers and figures in Japanese: titles, settings, and those of comparisons that
have no numbers (patterns.py has the others)."""

TEXTS = {
    # several papers
    "Two nodes in namespaces of one machine, one core each.": (
        "1 台の計算機の名前空間に 2 ノードを置き、それぞれに 1 コアを与えます。"
    ),
    "The wire is memif, shared memory: it has no link rate and no latency of its own.": (
        "配線は共有メモリの memif で、それ自身の速度の上限も遅延もありません。"
    ),
    "The wire is memif.": "配線は memif です。",
    "The wire is a veth pair of the kernel.": "配線はカーネルの veth の対です。",
    "Computed from topology and placements.": "トポロジとランクの配置から計算します。",
    "No switch forwards a packet.": "パケットを転送するスイッチはありません。",
    "QEMU emulates NICs and devices: bytes and addresses count, and times mean nothing.": (
        "NIC と装置は QEMU がエミュレートします。"
        "意味を持つのはバイトとアドレスで、時間に意味はありません。"
    ),
    # P1, bounds
    "Both ranks copy the message between its buffer and a frame, and raw frames are not copied.": (
        "両ランクはメッセージをバッファとフレームの間でコピーし、生のフレームはコピーしません。"
    ),
    "The kernel moves each frame between the two sockets, and takes most of the time.": (
        "カーネルが二つのソケットの間で各フレームを動かし、時間の大半を使います。"
    ),
    "Raw frames, without MPI, wait for it as well.": "MPI なしの生のフレームも同じように待ちます。",
    "In modes split and daemon hikyakud and the rank share the one core of a node.": (
        "split と daemon のモードでは、hikyakud とランクがノードの 1 コアを分け合います。"
    ),
    "So a message waits until the kernel has switched between the two.": (
        "そのため、メッセージはカーネルが二つを切り替えるまで待ちます。"
    ),
    "the same by raw frames, without MPI": "MPI なしの生のフレームでの同じ割合",
    # P3, bounds
    "A memif wire copies each byte, for messages and for one-sided writes alike.": (
        "memif の配線は、メッセージでも片側書き込みでも、各バイトをコピーします。"
    ),
    "The baseline is MPI over Hikyaku, which needs little beside these copies.": (
        "比べる相手は Hikyaku の上の MPI で、そのコピーのほかにはほとんど何も要りません。"
    ),
    "the wire's copies alone, of Isend and Irecv": "配線のコピーだけの、Isend と Irecv に対する比",
    "With METIS all messages of 48 and more processes are below 16 KB, and most of those of 12.": (
        "METIS では、48 プロセス以上のメッセージはすべて、12 プロセスでは大半が 16 KB 未満です。"
    ),
    "The ring keeps its links busy.": "リングではリンクが空くことはありません。",
    "Over two spines, no way of it has less than two thirds of the bytes that hashing's worst case "
    "has on a link.": (
        "二つのスパインを使うどの方法でも、リンクのバイト数は"
        "ハッシュの最悪の場合の 3 分の 2 を下回りません。"
    ),
    "With recursive doubling links idle, since in each step pairs of ranks wait for each other.": (
        "再帰倍加では、各段階でランクの組が互いに待つので、リンクが空く時間があります。"
    ),
    "MPI sends these at once, in the same frames as one-sided writes.": (
        "MPI はそれらをすぐに、片側書き込みと同じフレームで送ります。"
    ),
    "They differ in the work of the CPU, which takes no time here.": (
        "違いは CPU の仕事で、ここではその時間はゼロです。"
    ),
    "Exchanges take less than a fiftieth of a solve.": "交換は求解の 50 分の 1 未満です。",
    "Such a difference lies within the spread of the measurement.": (
        "このような差は測定のばらつきの範囲です。"
    ),
    "The limit is ours.": "限度は本プロジェクトが決めたものです。",
    # P1
    "MPI implementation using DPDK framework": "DPDK を用いた MPI の実装",
    "Shimada and Hayasaka, 2017": "Shimada、Hayasaka（2017）",
    "Latency by message size (Fig. 11), user-space wire": (
        "メッセージの大きさと遅延（図 11）、ユーザ空間の配線"
    ),
    "Latency by message size (Fig. 11), kernel wire by AF_XDP": (
        "メッセージの大きさと遅延（図 11）、AF_XDP で使うカーネルの配線"
    ),
    "Two nodes, 10 GbE (82599), osu_latency from 1 B to 1 MB: lower than TCP at every size.": (
        "2 ノード、10 GbE（82599）、1 B から 1 MB までの osu_latency で、"
        "どの大きさでも TCP より低遅延です。"
    ),
    "At best it is 77 % lower, at 2 KB.": "最もよい 2 KB では 77 % 低くなります。",
    "The paper forces each protocol, eager and rendezvous, at every size.": (
        "論文は、どの大きさでもイーガーとランデブの各プロトコルを強制しています。"
    ),
    "Here the library chooses, as it does for users.": (
        "ここでは、利用者の場合と同じくライブラリが選びます。"
    ),
    "A frame of AF_XDP has at most the MTU, and TCP passes 64 KiB in one piece.": (
        "AF_XDP のフレームは MTU 以下ですが、TCP は 64 KiB をひとかたまりで通します。"
    ),
    "So long messages are slower than TCP's.": "そのため、長いメッセージは TCP より遅くなります。",
    "Polling by ranks, by a process, or by both": (
        "ランク、プロセス、またはその両方によるポーリング"
    ),
    "If ranks alone poll, queues overflow while they compute.": (
        "ランクだけがポーリングすると、計算している間にキューがあふれます。"
    ),
    "If a process polls for all, a flood to one rank starves the others.": (
        "一つのプロセスがすべての代わりにポーリングすると、"
        "あるランクへの大量のメッセージがほかのランクを待たせます。"
    ),
    "So a process receives what is eager, and ranks receive the rest.": (
        "そこで、イーガーのものはプロセスが、残りはランクが受信します。"
    ),
    "The paper has no figure for it.": "論文にその図はありません。",
    "Mode split is the paper's design.": "split モードが論文の設計です。",
    "Forced protocols: eager below 13 KB, rendezvous above 26 KB (Fig. 11)": (
        "プロトコルの強制: 13 KB 未満はイーガー、26 KB 超はランデブ（図 11）"
    ),
    "Over DPDK, eager has the lower latency below 13 KB, and rendezvous above 26 KB.": (
        "DPDK では、13 KB 未満でイーガーが、26 KB を超えるとランデブが低遅延です。"
    ),
    "Both are below TCP's, forced alike.": "どちらも、同じく強制した TCP より低遅延です。",
    "Up to 64 KiB in place of 1 MB: Hikyaku sends at most 16 frames eagerly.": (
        "1 MB ではなく 64 KiB までです。Hikyaku がイーガーで送るのは 16 フレームまでだからです。"
    ),
    "Its rendezvous is a get of the receiver, and not the paper's two packets.": (
        "Hikyaku のランデブは受信側の get で、論文のような 2 パケットではありません。"
    ),
    "Mini-applications (future work of the paper)": "小規模アプリケーション（論文の今後の課題）",
    "Only osu_latency was measured.": "測られたのは osu_latency だけです。",
    "Programs that Debian packages, if they are installed.": (
        "Debian のパッケージにあるプログラムのうち、導入済みのものです。"
    ),
    "docs/trials.md has others that were run by hand.": (
        "手で実行したほかのものは docs/trials.md にあります。"
    ),
    "below TCP at 2 KB": "2 KB で TCP より低い割合",
    "theirs: between 13 and 26 KB": "論文: 13 KB と 26 KB の間",
    # P2
    "Kernel module and network control by MPI communication patterns (SDN-MPI)": (
        "MPI の通信パターンに基づくカーネルモジュールとネットワーク制御（SDN-MPI）"
    ),
    "Takahashi, Date, Khureltulga, Kido and Shimojo": "Takahashi、Date、Khureltulga、Kido、Shimojo",
    "Latency and bandwidth with and without tags (Figs. 5 and 6), one switch": (
        "タグの有無と遅延・帯域幅（図 5、図 6）、スイッチ 1 台"
    ),
    "The same through three switches": "同じく、スイッチ 3 台",
    "The same on one wire, where the receiver restores the address": (
        "同じく、1 本の配線（受信側がアドレスを元に戻す）"
    ),
    "One switch, two nodes, 1 GbE, osu_bw and osu_latency from 1 B to 2 MB: no visible difference "
    "with and without tags.": (
        "スイッチ 1 台、2 ノード、1 GbE、1 B から 2 MB までの osu_bw と osu_latency で、"
        "タグの有無による差は見えません。"
    ),
    "Two nodes in namespaces, and a switch of Open vSwitch in user space.": (
        "名前空間の 2 ノードと、ユーザ空間の Open vSwitch のスイッチ 1 台です。"
    ),
    "Two nodes in namespaces, and three switches of Open vSwitch in user space.": (
        "名前空間の 2 ノードと、ユーザ空間の Open vSwitch のスイッチ 3 台です。"
    ),
    "Two nodes in namespaces, joined by a veth pair.": (
        "veth の対でつないだ、名前空間の 2 ノードです。"
    ),
    "MPI_Bcast by multicast of the switches": "スイッチのマルチキャストによる MPI_Bcast",
    "MPI_Bcast on links of a limited rate, in time": "速度を制限したリンクでの MPI_Bcast の時間",
    "MPI_Allreduce over redundant links": "冗長なリンクでの MPI_Allreduce",
    "MPI_Allreduce of stock Open MPI on links of a limited rate, in time": (
        "速度を制限したリンクでの、標準の Open MPI の MPI_Allreduce の時間"
    ),
    "An algorithm of their controller; earlier work of theirs measured it.": (
        "著者のコントローラのアルゴリズムで、以前の論文で測られています。"
    ),
    "Nodes in namespaces on a leaf-spine network of Open vSwitch.": (
        "Open vSwitch のリーフ・スパイン網につないだ、名前空間のノードです。"
    ),
    "Eight nodes in namespaces on a leaf-spine network of Open vSwitch.": (
        "Open vSwitch のリーフ・スパイン網につないだ、名前空間の 8 ノードです。"
    ),
    "Links between switches carry 20 Mbit/s each way.": (
        "スイッチ間のリンクは、各方向に 20 Mbit/s です。"
    ),
    "Hashing gives each pair of ranks a random one of the equal paths.": (
        "ハッシュは、ランクの組ごとに、等しい経路の中から無作為に一つを選びます。"
    ),
    "Flow entries by the number of ranks": "ランク数とフローエントリ数",
    "Entries that match addresses alone fit tables of tens of thousands.": (
        "アドレスだけを照合するエントリは、数万個の表に入ります。"
    ),
    "Our entries match parts of addresses.": "ここのエントリは、アドレスの一部を照合します。",
    "A mode of whole ones does not exist yet.": "アドレス全体を照合するモードはまだありません。",
    "A link is cut": "リンクの切断",
    "The controller learns the topology by LLDP.": "コントローラは LLDP でトポロジを知ります。",
    "The paper has no figure for a cut.": "論文に切断の図はありません。",
    "middle of all sizes": "全サイズの中央値",
    "worst size": "最悪の大きさ",
    "on the busiest link, times the payload": "最も混むリンクのバイト数の、データに対する倍率",
    "middle placement": "中間の配置",
    "multicast": "マルチキャスト",
    "binomial": "二項木",
    "spread": "分散",
    "hashing": "ハッシュ",
    "one path": "単一経路",
    "Open MPI's own": "Open MPI 自身",
    # P3
    "Neighbour communication by RDMA in place of messages": (
        "メッセージを RDMA に置き換える隣接通信"
    ),
    "Noguchi, Fujii and Tanaka": "Noguchi、Fujii、Tanaka",
    "Transfers of 100 to 100 000 doubles, between two nodes and within one (Fig. 1)": (
        "倍精度数 100 個から 100 000 個の転送、ノード間とノード内（図 1）"
    ),
    "One-sided writes are faster than Isend and Irecv, within a node and between nodes.": (
        "片側書き込みは、ノード内でもノード間でも Isend と Irecv より速くなります。"
    ),
    "An exchange of the 27-point matrix on 100³ points (tables 1 and 2)": (
        "100³ 点の 27 点行列の交換（表 1、表 2）"
    ),
    "With METIS and one NIC up to 55 % less time than MPI.": (
        "METIS と NIC 1 枚では、MPI より最大 55 % 短い時間です。"
    ),
    "With blocks of rows and one NIC 2 to 5 % more.": (
        "行ブロック分割と NIC 1 枚では、2 から 5 % 長くなります。"
    ),
    "With four NICs less in both.": "NIC 4 枚では、どちらも短くなります。",
    "Two ranks.": "2 ランクです。",
    "Two processes in place of 6 to 192, which P3-scale has.": (
        "6 から 192 ではなく 2 プロセスです。6 から 192 は P3-scale にあります。"
    ),
    "With blocks of rows and one port the goal is 1, MPI's own time, which the paper did not "
    "reach.": (
        "行ブロック分割と 1 ポートでの目標は 1、つまり MPI 自身の時間で、"
        "論文はこれに届いていません。"
    ),
    "Four ports of a rank share its core, so they gain nothing here.": (
        "ランクの 4 ポートは 1 コアを分け合うので、ここでは利点がありません。"
    ),
    "6 to 192 processes, one a node (tables 1 and 2)": (
        "6 から 192 プロセス、ノードごとに一つ（表 1、表 2）"
    ),
    "See the tables above.": "上の表を参照してください。",
    "One-sided writes gain more with METIS, which gives each process more neighbours, and with "
    "four NICs.": (
        "片側書き込みの利点は、隣接するプロセスが増える METIS と、NIC 4 枚で大きくなります。"
    ),
    "Times are simulated: this engine in virtual time, one rank a node, one network switch, links "
    "of 100 Gb/s, frames of 9000 bytes.": (
        "時間はシミュレーションの値です。エンジンを仮想の時間で動かし、ノードごとに 1 ランク、"
        "スイッチ 1 台、100 Gb/s のリンク、9000 バイトのフレームとします。"
    ),
    "A CPU's work takes no time there.": "そこでは CPU の仕事に時間はかかりません。",
    "Real ranks, of which many share a core, count the messages.": (
        "コアを分け合う実際のランクが、メッセージを数えます。"
    ),
    "Two real ranks are timed on links that the kernel limits to 1 Gb/s, beside the simulation of "
    "these.": (
        "カーネルが 1 Gb/s に制限するリンクで、実際の 2 ランクの時間も測り、"
        "同じ条件のシミュレーションと比べます。"
    ),
    "The model of MPI has the messages of eager and rendezvous protocols, and no matching.": (
        "MPI のモデルにはイーガーとランデブのメッセージがあり、照合の手間はありません。"
    ),
    "Whole solves by conjugate gradients, in C and in Fortran (beyond the paper)": (
        "共役勾配法による求解全体、C と Fortran（論文にないもの）"
    ),
    "The paper times an exchange, and not a solver that needs it.": (
        "論文が測るのは交換の時間で、それを使うソルバの時間ではありません。"
    ),
    "Two ranks solve with the 27-point matrix on 40³ points.": (
        "2 ランクが 40³ 点の 27 点行列で解きます。"
    ),
    "Products and sums take most of a solve, so a faster exchange changes little.": (
        "求解の時間の大半は積と和なので、交換が速くなっても変化はわずかです。"
    ),
    "both over Hikyaku": "どちらも Hikyaku を使用",
    "MPI by its own shared memory": "MPI は自身の共有メモリを使用",
    "one-sided, of Isend and Irecv": "片側書き込みの時間の、Isend と Irecv に対する比",
    "one-sided, of Isend and Irecv, within a node": (
        "片側書き込みの時間の、Isend と Irecv に対する比、ノード内"
    ),
    "the same, of MPI over TCP": "同じく、TCP の MPI に対する比",
    "the same, of that by MPI over TCP": "同じく、TCP の MPI による時間に対する比",
    "a whole solve by one-sided writes, of that by Isend and Irecv": (
        "片側書き込みによる求解全体の時間の、Isend と Irecv に対する比"
    ),
    "blocks of rows": "行ブロック分割",
    # P4
    "Network I/O by peer-to-peer DMA (libpop, P2PNIC, Pktpit)": (
        "ピアツーピア DMA によるネットワーク I/O（libpop、P2PNIC、Pktpit）"
    ),
    "KAKENHI report": "科研費報告書",
    "Where the bytes of a packet go: bounce, P2PNIC and Pktpit": (
        "パケットのバイトが通る場所: bounce、P2PNIC、Pktpit"
    ),
    "P2PNIC and Pktpit keep packets out of main memory; bounce does not.": (
        "P2PNIC と Pktpit では、パケットが主記憶を通りません。bounce では通ります。"
    ),
    "Routers against l3fwd (Fig. 6)": "ルータと l3fwd（図 6）",
    "All variants in which the NIC decides forward more than l3fwd, Pktpit too.": (
        "NIC が経路を決める方式は、Pktpit も含めて、すべて l3fwd より多く転送します。"
    ),
    "Routers of the CPU have one core and the load the other.": (
        "CPU のルータが 1 コアを、負荷がもう 1 コアを使います。"
    ),
    "The wires are memif.": "配線は memif です。",
    "The NICs are emulated: each is a process, its BAR is shared memory, and its wire side is part "
    "of it.": (
        "NIC はエミュレートしたものです。各 NIC はプロセスで、BAR は共有メモリ、"
        "配線側もそのプロセスの一部です。"
    ),
    "In 2→2 two NICs share a core.": "2→2 では、2 枚の NIC が 1 コアを分け合います。",
    "A core takes the part of a NIC's hardware, so rates are of processes.": (
        "コアが NIC のハードウェアの役をするので、値はプロセスの速さです。"
    ),
    "Without wires no frame of l3fwd leaves its core, and it can be faster than emulated NICs.": (
        "配線がなければ l3fwd のフレームはコアの外に出ないので、"
        "エミュレートした NIC より速いことがあります。"
    ),
    "docs/routers.md has the procedure for real NICs.": (
        "実物の NIC での手順は docs/routers.md にあります。"
    ),
    "Receiving beside a load on memory (Fig. 5)": "メモリの負荷と受信（図 5）",
    "CPU writes to main memory cut what a NIC can receive by up to 70 %, and not what goes peer to "
    "peer.": (
        "CPU が主記憶に書き込むと、NIC の受信は最大 70 % 減りますが、"
        "ピアツーピアのものは減りません。"
    ),
    "Sending does not suffer.": "送信には影響がありません。",
    "It needs a NIC that shares the bandwidth of memory with a CPU.": (
        "メモリの帯域幅を CPU と分け合う NIC が必要です。"
    ),
    "docs/devmem.md has the tool and the procedure.": "ツールと手順は docs/devmem.md にあります。",
    "PCIe bandwidth that headers take (Fig. 2)": "ヘッダが使う PCIe の帯域幅（図 2）",
    "Through main memory a packet crosses PCIe twice: up to 12 Gbit/s of headers on a Gen3 x8 "
    "link.": (
        "主記憶を通るパケットは PCIe を 2 度通り、Gen3 x8 のリンクでは"
        "ヘッダが最大 12 Gbit/s になります。"
    ),
    "Computed by the model of pcie-bench.": "pcie-bench のモデルで計算します。",
    "Nothing crosses a link.": "リンクを通るものはありません。",
    "As restated here, the paper's 12 Gbit/s have neither a size of frames nor a rate: ours are "
    "for 40 GbE.": (
        "ここで引いた論文の 12 Gbit/s には、フレームの大きさも速度もありません。"
        "ここの値は 40 GbE のものです。"
    ),
    "router that bounces packets, of l3fwd": "主記憶を通すルータの、l3fwd に対する比",
    "Pktpit, times Wr, 1→1": "Pktpit の、Wr に対する比、1→1",
    "packets whose payload was in main memory": "データが主記憶に入ったパケット",
    # P5
    "Distributed computing on raw Ethernet, run to completion": (
        "生のイーサネット上の、run to completion による分散計算"
    ),
    "Yamamoto, Kawashima and Matsuo, 2022": "Yamamoto、Kawashima、Matsuo（2022）",
    "Experiment 1: messages that are held (Fig. 10)": "実験 1: メッセージの保持（図 10）",
    "10 GbE at full rate: flat up to 1600 ns at 64 B, and 3200 ns at 128 B.": (
        "全速の 10 GbE で、64 B では 1600 ns まで、128 B では 3200 ns まで平らです。"
    ),
    "The client keeps 128 messages open.": (
        "クライアントは、常に 128 個のメッセージを送り出しています。"
    ),
    "The client waits for answers, so nothing is lost.": (
        "クライアントは応答を待つので、失われるものはありません。"
    ),
    "P5-drops has a sender that does not wait; `bench rtc --experiments drops --hold-ns N` holds "
    "messages there.": (
        "待たない送信側は P5-drops にあり、"
        "そこでは `bench rtc --experiments drops --hold-ns N` がメッセージを保持します。"
    ),
    "Experiment 2: sums against TCP (Fig. 12)": "実験 2: 和、TCP との比較（図 12）",
    "30 times TCP at 1 repetition, 4 times at 10, 0.4 times at 100.": (
        "繰り返し 1 回で TCP の 30 倍、10 回で 4 倍、100 回で 0.4 倍です。"
    ),
    "Two nodes in namespaces, one core each.": "名前空間の 2 ノードに、それぞれ 1 コアを与えます。",
    "DPDK's wire is memif, the others' is veth.": "DPDK の配線は memif、ほかの配線は veth です。",
    "The client waits for answers, so overload does not lose messages.": (
        "クライアントは応答を待つので、過負荷でもメッセージは失われません。"
    ),
    "P5-overload has a sender that does not wait.": "待たない送信側は P5-overload にあります。",
    "The sum uses AVX2 where the CPU has it.": "和は、CPU にあれば AVX2 を使います。",
    "Experiment 2 with a sender that does not wait": "実験 2、待たない送信側",
    "At 100 repetitions 0.4 times TCP, since receiving starves.": (
        "繰り返し 100 回では、受信が追いつかず TCP の 0.4 倍です。"
    ),
    "DPDK's wire is memif, the others' is veth, which hands packets to the core of their receiver "
    "(RPS).": ("DPDK の配線は memif、ほかは veth で、パケットを受信側のコアに渡します（RPS）。"),
    "Where one core cannot send as much as is asked, the offered rate is lower than its name; the "
    "tables of the command have it.": (
        "1 コアでは求めるだけ送れないところで、実際の速度は表示より低くなります。"
        "実際の値はコマンドの表にあります。"
    ),
    "`--receivers pipeline` is a pipeline of two threads, which needs a machine of four cores.": (
        "`--receivers pipeline` は 2 スレッドのパイプラインで、4 コアの計算機が必要です。"
    ),
    "Gossip learning (Fig. 14)": "ゴシップ学習（図 14）",
    "Two nodes learn twice as fast as one, and 1.2 times as fast as by TCP.": (
        "2 ノードの学習は、1 ノードの 2 倍、TCP による場合の 1.2 倍の速さです。"
    ),
    "16 features in place of y = ax + b.": "y = ax + b の代わりに 16 個の特徴量を使います。",
    "Lost packets and CPU by load (Figs. 5 and 6)": "負荷による損失と CPU 時間（図 5、図 6）",
    "The kernel loses packets at a load that DPDK carries.": (
        "DPDK なら運べる負荷で、カーネルはパケットを失います。"
    ),
    "Sender and receiver have a core each, so no sender reaches 10 GbE's line rate.": (
        "送信側と受信側は 1 コアずつなので、10 GbE の全速に届く送信側はありません。"
    ),
    "The CPU time of the kernel is seen where it is the process's, or a tick of its core.": (
        "カーネルの CPU 時間は、プロセスのものか、そのコアのティックだけが見えます。"
    ),
    "theirs: 1600 ns for a burst of 32, at 10 Gbit/s.": (
        "論文: 10 Gbit/s で、32 個のまとまりにつき 1600 ns。"
    ),
    "theirs: 3200 ns for a burst of 32, at 10 Gbit/s.": (
        "論文: 10 Gbit/s で、32 個のまとまりにつき 3200 ns。"
    ),
    "The wire here has no rate, so every hold costs.": (
        "ここの配線に速度の上限はないので、保持は必ず時間を取ります。"
    ),
    "hold up to which throughput is flat": "スループットが変わらない最大の保持時間",
    "without a hold": "保持なし",
    "by a plain loop": "通常のループ",
    "such a rate of DPDK, times that of a UDP socket": "その DPDK の速度の、UDP ソケットに対する比",
    "CPU time of a message": "メッセージあたりの CPU 時間",
    "It polls, so it takes its core at any rate.": (
        "ポーリングするので、どの速度でもコアを使い切ります。"
    ),
    "time of one node, times that of two by DPDK": "単独ノードの時間の、DPDK の 2 ノードに対する比",
    "time of two nodes by TCP, times by DPDK": "TCP の 2 ノードの時間の、DPDK に対する比",
    "Two jobs at once, and several collectives in one program, on links of a limited rate": (
        "二つのジョブを同時に、また一つのプログラムで複数の集団通信を、速度制限のあるリンクで"
    ),
    "Left open: applications with several collectives in one run.": (
        "残された課題: 一度の実行で複数の集団通信を使うアプリケーション。"
    ),
    "These entries have masks.": "これらのエントリはマスクを使います。",
    "`hikyaku sdn entries` counts exact ones, for 8 to 10 000 ranks.": (
        "`hikyaku sdn entries` は完全一致のものを、8 から 10 000 ランクまで数えます。"
    ),
    "A NIC of the guest sends, receives, and does both.": (
        "ゲストの NIC は、送信、受信、その両方を行います。"
    ),
    "The rows say that the cells run, that their frames are right, and where packets and "
    "descriptor rings are.": (
        "各行は、測定項目が動作すること、フレームが正しいこと、"
        "パケットとディスクリプタリングの場所を示します。"
    ),
    "No figure here shows the effect: it needs a NIC that shares the bandwidth of memory with a "
    "CPU.": (
        "この効果を示す数値はここにはありません。メモリ帯域を CPU と共有する NIC が必要だからです。"
    ),
    "docs/devmem.md describes the cells and the loads.": (
        "測定項目と負荷は docs/devmem.md にあります。"
    ),
    "Nodes in namespaces of one machine, one core each; more nodes than cores share them, and "
    "yield.": (
        "ノードは一台の計算機の名前空間で、コアは一つずつです。"
        "コアより多いノードはコアを共有し、譲り合います。"
    ),
    "Nodes that share a core show what gossip costs, and not how many machines would scale.": (
        "コアを共有するノードが示すのはゴシップのコストで、"
        "計算機を増やしたときの伸びではありません。"
    ),
    "Raw is the kernel's packet socket: what it gains over TCP comes without DPDK.": (
        "raw はカーネルのパケットソケットで、TCP に対する利得は DPDK なしで得られるものです。"
    ),
}
