/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything on the page that is text: the tables, the events, and the way in words. */

import { end, order, ranksOf } from "./network.js";

const byId = (id) => document.getElementById(id);
const mbit = (bits) => (bits / 1e6).toFixed(1);

/* "1 job", "2 jobs" */
function counted(count, noun, plural = `${noun}s`) {
	return `${count} ${count === 1 ? noun : plural}`;
}

function row(bad, ...cells) {
	const made = document.createElement("tr");
	if (bad) made.className = "bad";
	for (const text of cells) made.insertCell().textContent = text;
	return made;
}

function item(text) {
	const made = document.createElement("li");
	made.textContent = text;
	return made;
}

export function write(net, status) {
	const up = net.links.filter((l) => !l.cut).length;
	byId("summary").textContent = [
		counted(net.switches.length, "switch", "switches"), counted(up, "link"),
		counted(net.hosts.length, "node"), counted(net.jobs.length, "job"),
	].join(", ");
	byId("separated").textContent = status.separated?.text ?? "";
	byId("links").replaceChildren(...net.links.map((l) => l.cut ? row(true, l.name, "cut", "")
		: row(false, l.name, mbit(l.bits_b_to_a), mbit(l.bits_a_to_b))));
	byId("switches").replaceChildren(
		...net.switches.map((s) => s.disconnected
			? row(true, `${s.name}: no connection`, "", "", "")
			: row(false, s.name, s.rules, s.groups ?? "", s.refused ?? "")),
		...Object.values(status.refused_switches)
			.map((text) => row(true, text, "", "", "")));
	const name = new Map(net.switches.map((s) => [s.switch, s.name]));
	byId("hosts").replaceChildren(...net.hosts.map((h) => {
		const cut = h.interfaces.filter((i) => !i.up).map((i) => i.link || i.address);
		const at = cut.length ? `${cut.join(", ")} cut` : name.get(h.at) ?? h.at;
		return row(cut.length, h.name, at, ranksOf(h, net.jobs).replace(/^ranks? /, ""));
	}));
	byId("events").replaceChildren(...status.events.slice(-50).reverse().map((e) =>
		item(`${new Date(e.time * 1000).toLocaleTimeString()} ${e.text}`)));
}

/* The way, hop by hop: "leaf0 → spine1, node1". @wrong: why there is none. */
export function writeWay(net, shown, wrong) {
	const name = new Map(net.switches.map((s) => [s.switch, s.name]));
	const at = (number) => name.get(number) ?? `switch ${number}`;
	byId("path").textContent = wrong;
	byId("path").className = wrong ? "bad" : "";
	byId("hops").replaceChildren();
	if (!shown) return;
	const host = (p, address) => net.hosts.find((h) => h.interfaces.some((i) =>
		end(i) === end(p) && (!address || i.address === address)))?.name ?? address;
	const hops = [];  /* of each, a Map from the sender to its receivers */
	const add = (hop, from, to) => {
		hops[hop] ||= new Map();
		hops[hop].set(from, [...(hops[hop].get(from) || []), to]);
	};
	const reached = new Map([[shown.source.switch, 1]]);
	add(0, host(shown.source, shown.from), at(shown.source.switch));
	for (const l of shown.links) {
		add(l.hop, at(l.a.switch), at(l.b.switch));
		if (!reached.has(l.b.switch)) reached.set(l.b.switch, l.hop + 1);
	}
	for (const r of shown.receivers)
		add(reached.get(r.switch), at(r.switch), host(r, r.address));
	const count = shown.receivers.length, links = shown.links.length;
	byId("path").textContent = (shown.tag ? `Tag ${shown.tag}: ` : "") +
		[counted(links, "link between switches", "links between switches"),
			counted(hops.length, "hop"), counted(count, "receiver")].join(", ") +
		(count ? "" : ": the switches drop it");
	const said = ([from, to]) => `${from} → ${to.sort(order.compare).join(", ")}`;
	byId("hops").replaceChildren(...hops.map((each) => item([...each].map(said).join("; "))));
}
