/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws the map and its legend. */

import { along, curve, layout, reversed, thickness } from "./layout.js";
import { measure, Room } from "./labels.js";
import { end, ranksOf } from "./network.js";

const SVG = "http://www.w3.org/2000/svg";
const RADIUS = 8;
const LONG = 120;  /* pixels of a turned text of ranks */

function make(kind, attributes, ...inside) {
	const made = document.createElementNS(SVG, kind);
	for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
	made.append(...inside);
	return made;
}

const titled = (text) => make("title", {}, text);
const rate = (bits) => bits >= 1e9 ? `${(bits / 1e9).toFixed(1)} Gbit/s`
	: `${(bits / 1e6).toFixed(1)} Mbit/s`;
const line = ({ from, bend, to }) => `M${from} Q${bend} ${to}`;
/* with a vertex in the middle, for the arrow there */
const directed = (c) => {
	const points = Array.from({ length: 17 }, (_, i) => along(c, i / 16));
	const path = (some) => `M${some.join(" L")}`;
	return { before: path(points.slice(0, 9)), after: path(points.slice(8)) };
};

/* Every curve of the map, by its ends: those between switches, and those of hosts. */
function curves(net, places) {
	const found = new Map(), pairs = new Map();
	const pair = (l) => [l.a.switch, l.b.switch].sort((a, b) => a - b).join();
	for (const l of net.links) pairs.set(pair(l), [...(pairs.get(pair(l)) || []), l]);
	for (const links of pairs.values())
		links.forEach((l, k) => {
			const a = places.switches.get(l.a.switch);
			const b = places.switches.get(l.b.switch);
			if (!a || !b) return;
			const c = curve(a, b, k, links.length);
			found.set(end(l.a), c).set(end(l.b), reversed(c));
		});
	for (const host of net.hosts)
		host.interfaces.forEach((i, k) => {
			const [a, b] = [places.switches.get(i.switch), places.hosts.get(host.name)];
			if (a && b)
				found.set(`${end(i)} ${i.address}`,
					curve(a, b, k, host.interfaces.length));
		});
	return found;
}

function drawLink(map, c, name, bits, about) {
	if (c)
		map.append(make("path", { d: line(c), class: about ? "link" : "link cut",
			"data-link": name,
			"stroke-width": thickness(bits) }, titled(`${name}: ${about || "cut"}`)));
}

function drawLinks(map, net, at) {
	for (const l of net.links)
		drawLink(map, at.get(end(l.a)), l.name, l.load,
			!l.cut && `${rate(l.bits_b_to_a)} out, ${rate(l.bits_a_to_b)} in`);
	for (const host of net.hosts)
		for (const i of host.interfaces)
			drawLink(map, at.get(`${end(i)} ${i.address}`), i.link || host.name,
				i.bits_to_host,
				i.up && `${rate(i.bits_to_host)} to the node`);
}

/* The curves that the frame takes, each with its hop: the sender's link, those between switches,
   the receivers'. */
function steps(shown, net, at) {
	const own = (p, address) => {
		const all = net.hosts.flatMap((h) => h.interfaces).filter((i) => end(i) === end(p));
		const one = all.find((i) => i.address === address) || all[0];
		return one && at.get(`${end(one)} ${one.address}`);
	};
	const hops = new Map([[shown.source.switch, 1]]);
	const first = own(shown.source, shown.from);
	const found = first ? [{ hop: 1, curve: reversed(first) }] : [];
	for (const l of shown.links) {
		hops.set(l.b.switch, Math.min(hops.get(l.b.switch) ?? Infinity, l.hop + 1));
		if (at.has(end(l.a)))
			found.push({ hop: l.hop + 1, curve: at.get(end(l.a)), named: true });
	}
	for (const r of shown.receivers) {
		const c = own(r, r.address);
		if (c) found.push({ hop: (hops.get(r.switch) ?? 0) + 1, curve: c });
	}
	return found;
}

function drawWay(map, taken) {
	for (const { hop, curve: c } of taken) {
		const { before, after } = directed(c);
		const half = { d: before, class: "way", "data-hop": hop,
			"marker-end": "url(#arrow)" };
		map.append(make("path", half, titled(`hop ${hop}`)),
			make("path", { d: after, class: "way" }));
	}
}

function drawSwitches(map, net, places, room) {
	for (const s of net.switches) {
		const p = places.switches.get(s.switch);
		const kind = s.disconnected ? "switch disconnected" : "switch";
		const group = make("g", { class: kind },
			titled(s.disconnected ? `${s.name}: no connection to the controller`
				: `${s.name}: ${s.rules} rules, ${s.groups} groups`),
			make("rect", { x: p.x - p.w / 2, y: p.y - p.h / 2, width: p.w, height: p.h,
				rx: 5 }));
		const turn = p.turned ? { transform: `rotate(-90 ${p.x} ${p.y})` } : {};
		group.append(make("text", { x: p.x, y: p.y + 4, ...turn }, s.name));
		map.append(group);
		room.take(p.x, p.y, p.w, p.h);
	}
}

/* The ranks of @host, or how many there are, if they do not fit into @room pixels. */
function briefly(host, jobs, room) {
	const all = ranksOf(host, jobs), count = [...host.ranks.values()].flat().length;
	return measure(all) <= room ? all : `${count} ranks`;
}

function drawHosts(map, net, places, shown) {
	const receivers = new Set((shown?.receivers || []).map((r) => r.address));
	const isSource = (i) => shown && end(i) === end(shown.source)
		&& (!shown.from || i.address === shown.from);
	for (const host of net.hosts) {
		const p = places.hosts.get(host.name);
		if (!p) continue;
		const sends = host.interfaces.some(isSource);
		const takes = host.interfaces.some((i) => receivers.has(i.address));
		const about = host.interfaces.map((i) =>
			`${i.interface || "address"} ${i.address} by ${i.link}`);
		const ranks = briefly(host, net.jobs, p.turned ? LONG : p.room);
		const kinds = ["host", sends && "source", takes && "receiver"].filter(Boolean);
		const group = make("g", { class: kinds.join(" ") },
			titled([host.name, ranksOf(host, net.jobs), ...about]
				.filter(Boolean).join("\n")),
			make("circle", { cx: p.x, cy: p.y, r: RADIUS > p.room ? 5 : RADIUS }));
		const y = p.y + RADIUS;
		if (p.turned)
			group.append(make("text", { x: p.x + 4, y: y + 4, class: "turned",
				transform: `rotate(-90 ${p.x + 4} ${y + 4})` },
				ranks ? `${host.name}  ${ranks}` : host.name));
		else
			group.append(make("text", { x: p.x, y: y + 14 }, host.name),
				make("text", { x: p.x, y: y + 28, class: "ranks" }, ranks));
		map.append(group);
	}
}

/* A hop has no number where none fits; a cut link always has its name. */
function write(map, room, width, text, c, kind) {
	const place = room.put(text, (t) => along(c, t), { must: kind === "cut", width });
	if (place)
		map.append(make("text", { x: place[0], y: place[1], class: `note ${kind}` }, text));
}

/* Draws @net into @map, which fills @box. @shown: the answer of a path call, with `from`, the
   sender's address, or null. */
export function draw(map, box, net, shown) {
	const places = layout(net, box, measure, (h) => briefly(h, net.jobs, LONG));
	const { width, height } = places, room = new Room();
	map.replaceChildren(make("defs", {}, make("marker", { id: "arrow",
		viewBox: "0 0 8 8", refX: 5,
		refY: 4, markerWidth: 14, markerHeight: 14, orient: "auto",
		markerUnits: "userSpaceOnUse" },
		make("path", { d: "M0,0 L8,4 L0,8 Z", class: "arrow" }))));
	map.setAttribute("width", width);
	map.setAttribute("height", height);
	map.setAttribute("viewBox", `0 0 ${width} ${height}`);
	const at = curves(net, places), taken = shown ? steps(shown, net, at) : [];
	drawLinks(map, net, at);
	drawWay(map, taken);
	drawSwitches(map, net, places, room);
	drawHosts(map, net, places, shown);
	const note = (text, c, kind) => c && write(map, room, width, text, c, kind);
	for (const l of net.links)
		if (l.cut) note(l.name, at.get(end(l.a)), "cut");
	for (const i of net.hosts.flatMap((h) => h.interfaces))
		if (!i.up) note(i.link || i.address, at.get(`${end(i)} ${i.address}`), "cut");
	for (const { hop, curve: c, named } of taken)
		if (named) note(`${hop}`, c, "hop");
}

/* The legend, drawn by the same rules as the map. */
export function drawLegend(list) {
	const key = (text, width, ...inside) => {
		const item = document.createElement("li");
		const drawn = make("svg", { width, height: 16 });
		drawn.append(...inside);
		item.append(drawn, text);
		return item;
	};
	const sample = (size, kind) =>
		make("path", { d: "M0,8 H30", class: kind, "stroke-width": size });
	const box = (kind) => make("rect",
		{ x: 1, y: 2, width: 24, height: 12, rx: 3, class: kind });
	const loads = [["link, to 1 Mbit/s", 1e6], ["100 Mbit/s", 1e8],
		["10 Gbit/s and more", 1e10]];
	list.replaceChildren(
		key("switch", 26, box("key-switch")),
		key("switch without connection to the controller", 26, box("key-disconnected")),
		key("node, with its ranks", 16,
			make("circle", { cx: 8, cy: 8, r: 6, class: "key-host" })),
		...loads.map(([text, bits]) => key(text, 30, sample(thickness(bits), "link"))),
		key("cut link, with its name", 30, sample(2, "link cut")),
		key("the way shown, with the numbers of hops", 30, sample(3, "way"),
			make("path", { d: "M10,1 L24,8 L10,15 Z", class: "arrow" })));
}
