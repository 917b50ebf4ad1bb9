# SPDX-License-Identifier: BSD-3-Clause
"""The text exposition format of Prometheus, version 0.0.4."""

from . import Sample, ranks

# Names are a promise (docs/man/hikyaku.1.md). JSON member: type, name behind the prefix, help.
RANK = {
    "tx_packets": ("counter", "tx_packets_total", "Packets sent for the first time."),
    "rx_packets": ("counter", "rx_packets_total", "Packets that arrived for the first time."),
    "tx_bytes": ("counter", "tx_bytes_total", "Bytes in packets sent for the first time."),
    "rx_bytes": ("counter", "rx_bytes_total", "Bytes in packets that arrived the first time."),
    "tx_acks": ("counter", "tx_acks_total", "Acknowledgements sent."),
    "rx_acks": ("counter", "rx_acks_total", "Acknowledgements that arrived."),
    "resends": ("counter", "resends_total", "Packets sent again."),
    "duplicates": ("counter", "duplicates_total", "Packets that arrived again."),
    "loss_time": ("counter", "lost_by_time_total", "Packets called lost by time."),
    "loss_rto": ("counter", "lost_by_timer_total", "Packets called lost by the resend timer."),
    "no_credit": ("counter", "no_credit_total", "Sends that waited for credit of the peer."),
    "no_cwnd": ("counter", "no_cwnd_total", "Sends that waited for the congestion window."),
    "no_block": ("counter", "no_block_total", "Sends that waited for room for their state."),
    "refused": ("counter", "refused_total", "Packets for which there was no room to keep them."),
    "dead_peers": ("counter", "dead_peers_total", "Peers given up."),
    "messages_sent": ("counter", "messages_sent_total", "Messages sent."),
    "messages_delivered": ("counter", "messages_delivered_total", "Messages delivered."),
    "tx_dropped": ("counter", "tx_dropped_total", "Frames that the port did not take."),
    "tx_bulk": ("counter", "tx_bulk_total", "Packets sent by a queue that is for bulk alone."),
    "no_buffer": ("counter", "no_buffer_total", "Times no transmit buffer was free."),
    "async_polls": ("counter", "stand_in_polls_total", "Polls by who took the rank's place."),
    "kept": ("counter", "kept_total", "Frames kept while the rank was away."),
    "kept_now": ("gauge", "kept", "Frames kept just now."),
    "rings": (
        "counter",
        "rings_total",
        "Times that a peer's poller was woken.",
    ),
    "rx_frames": ("counter", "rx_frames_total", "Frames received by the rank's queues or pipes."),
    "tx_frames": ("counter", "tx_frames_total", "Frames sent by the rank's queues or pipes."),
    "tx_full": ("counter", "tx_full_total", "Frames for which these had no room just then."),
    "puts": ("counter", "puts_total", "Puts to peers."),
    "gets": ("counter", "gets_total", "Gets from peers."),
    "gets_served": ("counter", "gets_served_total", "Gets of peers that were served."),
    "put_bytes": ("counter", "put_bytes_total", "Bytes put to peers."),
    "put_bytes_in": ("counter", "put_in_bytes_total", "Bytes that peers have put here."),
}
SLOT = {
    "looks": ("counter", "poller_looks_total", "How often the poller has looked at the rank."),
    "away": ("counter", "poller_away_total", "How often the poller found the rank away."),
}
PIPE = {
    "to_rank": ("gauge", "pipe_to_rank_frames", "Frames that wait in the pipes to the rank."),
    "from_rank": ("gauge", "pipe_from_rank_frames", "Frames that wait in the rank's pipes."),
    "rx_full": ("counter", "pipe_full_frames_total", "Frames dropped: the rank's pipe was full."),
    "rx_share": ("counter", "pipe_share_frames_total", "Frames dropped: it had its share."),
    "tx_lost": ("counter", "pipe_lost_frames_total", "Frames of the rank the port did not take."),
}
SWITCH = {
    "rx_frames": ("counter", "rx_frames_total", "Frames received by the switch."),
    "tx_frames": ("counter", "tx_frames_total", "Frames sent by the switch."),
    "steered": ("counter", "steered_frames_total", "Frames that came by their rank's own queue."),
    "misled": ("counter", "misled_frames_total", "Frames that came by another rank's queue."),
    "stray": ("counter", "stray_frames_total", "Frames for no rank of this node."),
    "rx_lost": ("counter", "rx_lost_frames_total", "Frames for which a rank had no room."),
    "tx_lost": ("counter", "tx_lost_frames_total", "Frames that the port did not take."),
    "sleeps": ("counter", "sleeps_total", "Times the switch slept."),
    "rung": ("counter", "rung_total", "Times that a ring, or a frame, ended its sleep."),
    "rings": ("counter", "rings_total", "Times that it woke the poller."),
}
WIRE = {
    "rx_frames": ("counter", "rx_frames_total", "Frames received."),
    "tx_frames": ("counter", "tx_frames_total", "Frames sent."),
    "rx_bytes": ("counter", "rx_bytes_total", "Bytes received."),
    "tx_bytes": ("counter", "tx_bytes_total", "Bytes sent."),
}
PORT = {
    **WIRE,
    "rx_missed": ("counter", "rx_missed_total", "Frames that came when its ring was full."),
    "rx_no_buffer": ("counter", "rx_no_buffer_total", "Frames for which no buffer was left."),
    "rx_errors": ("counter", "rx_errors_total", "Frames received that were broken."),
    "tx_errors": ("counter", "tx_errors_total", "Frames that could not be sent."),
}
STEERING = {
    "rules": ("gauge", "steering_rules", "Ranks whose frames a rule of the NIC leads to them."),
    "refused": ("counter", "steering_rules_refused_total", "Rules that the NIC would not make."),
    "queues": ("gauge", "receive_queues", "Receive queues in use."),
}
DAEMON = {
    "cpu_seconds": ("counter", "cpu_seconds_total", "CPU time of hikyakud, without its poller."),
    "seconds": ("gauge", "uptime_seconds", "Since it started."),
    "ranks_seen": ("counter", "ranks_total", "Ranks that it has had."),
}
POLLER = {
    "cpu_seconds": ("counter", "cpu_seconds_total", "CPU time of the poller that runs now."),
    "rounds": ("counter", "rounds_total", "Rounds over all slots."),
    "sleeps": ("counter", "sleeps_total", "Times that it lay down until it is rung for."),
    "rung": ("counter", "rung_total", "Times that somebody rang for it."),
    "rung_in_vain": ("counter", "rung_in_vain_total", "… again, before there was anything to do."),
    "starts": ("counter", "starts_total", "How often a poller was started."),
}


def _label(value: object) -> str:
    return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class _Exposition:
    """Families in the order of their first sample; the samples of a family stay together."""

    def __init__(self) -> None:
        self.families: dict[str, list[str]] = {}

    def add(self, prefix: str, table: dict, values: dict | None, **labels: object) -> None:
        inside = ",".join(f'{key}="{_label(value)}"' for key, value in labels.items())
        for member, (kind, name, text) in table.items():
            if values is None or values.get(member) is None:
                continue
            full = f"hikyaku_{prefix}_{name}"
            head = [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
            self.families.setdefault(full, head).append(f"{full}{{{inside}}} {values[member]}")

    def __str__(self) -> str:
        return "".join(f"{line}\n" for lines in self.families.values() for line in lines)


def prometheus(sample: Sample) -> str:
    """The text exposition format, version 0.0.4."""
    out = _Exposition()
    for daemon in sample.daemons:
        whose = {"daemon": daemon["name"]}
        out.add("daemon", DAEMON, daemon, **whose)
        out.add("poller", POLLER, daemon["poller"], **whose)
        out.add("switch", SWITCH, daemon["switch"], **whose)
        steering = daemon["port"]["steering"]
        what = {"port": daemon["port"]["spec"], "rung": steering["rung"]}
        out.add("port", STEERING, steering, **whose, **what)
        out.add("port", PORT, daemon["port"]["counters"], **whose, port=what["port"])
        for wire in daemon["wires"]:
            out.add("wire", WIRE, wire, **whose, node=wire["node_id"])
        for slot in ranks(daemon):
            who = {"job": slot["job"], "endpoint": slot["endpoint"], **whose}
            out.add("rank", SLOT, slot, **who)
            out.add("rank", RANK, slot["counters"], **who)
            out.add("rank", PIPE, slot["pipe"], **who)
    for each in sample.ranks:
        out.add("rank", RANK, each["counters"], job=each["job"], endpoint=each["endpoint"])
    return str(out)
