/* SPDX-License-Identifier: BSD-3-Clause */
/* Where everything on the map is, in pixels. Nothing here touches the document.

   Nodes are in one row at the bottom, beside those of the same switch. Above them are their
   switches, and above these the other switches by their distance. Names that do not fit beside each
   other are turned by 90 degrees. A network that does not fit the screen makes the map larger. */

const MARGIN = 14, TIER = 76, HOST = 8, TEXT = 14;
const NARROW = 12.4;  /* the least distance of two nodes */
const WIDE = 72;  /* above this a switch gets no wider */

/* The tier of each switch: 0 has hosts. */
function tiers(net) {
	const near = new Map(net.switches.map((s) => [s.switch, []]));
	for (const { a, b } of net.links) {
		near.get(a.switch)?.push(b.switch);
		near.get(b.switch)?.push(a.switch);
	}
	const tier = new Map();
	let layer = [...new Set(net.hosts.map((h) => h.at))].filter((s) => near.has(s));
	if (!layer.length) layer = [...near.keys()];
	for (let depth = 0; layer.length; depth++) {
		for (const s of layer) tier.set(s, depth);
		layer = [...new Set(layer.flatMap((s) => near.get(s)))]
			.filter((s) => near.has(s) && !tier.has(s));
	}
	for (const s of near.keys()) if (!tier.has(s)) tier.set(s, 0);
	return { tier, near };
}

/* The switches of each tier, from left to right: above the middle of those they are joined to. */
function rows({ tier, near }, net) {
	const at = new Map(), found = [];
	for (let depth = 0; depth <= Math.max(0, ...tier.values()); depth++) {
		const middle = (s) => {
			const below = near.get(s).filter((n) => tier.get(n) === depth - 1);
			return below.reduce((sum, n) => sum + at.get(n), 0) / (below.length || 1);
		};
		const row = net.switches.filter((s) => tier.get(s.switch) === depth)
			.map((s) => s.switch);
		const wanted = new Map(row.map((s) => [s, depth ? middle(s) : 0]));
		row.sort((a, b) => wanted.get(a) - wanted.get(b) || a - b);
		row.forEach((s, i) => at.set(s, (i + 0.5) / row.length));
		found.push(row);
	}
	return found;
}

/* { width, height, switches, hosts }: Maps by number and name. A switch has { x, y, w, h, turned },
   a host { x, y, turned, room }. @measure(text) gives the width of a text, @ranks(host) the line
   below a host's name. */
export function layout(net, box, measure, ranks) {
	const [bottom = [], ...above] = rows(tiers(net), net);
	const own = new Map(bottom.map((s) => [s, net.hosts.filter((h) => h.at === s)]));
	const slots = [...own.values()].reduce((sum, h) => sum + Math.max(1, h.length), 0)
		+ 0.6 * Math.max(0, bottom.length - 1);
	const most = Math.max(1, bottom.length, ...above.map((row) => row.length));
	const least = Math.max(slots * NARROW, most * 26);
	const width = Math.max(box.width, least + 2 * MARGIN);
	const pitch = (width - 2 * MARGIN) / (slots || 1);

	const names = net.hosts.map((h) => measure(h.name));
	const turned = Math.max(0, ...names) > pitch - 6;
	const room = turned
		? Math.max(...net.hosts.map((h) => measure(`${h.name}  ${ranks(h)}`)))
		: 2 * TEXT + 4;
	const count = above.length + 1;
	const height = Math.max(box.height, MARGIN + count * TIER + 2 * HOST + room + MARGIN);
	const line = height - MARGIN - room - HOST;  /* of the hosts */
	const gap = (line - MARGIN - 16) / count;

	const hosts = new Map(), switches = new Map();
	let slot = MARGIN;
	for (const s of bottom) {
		const mine = own.get(s), size = Math.max(1, mine.length) * pitch;
		mine.forEach((h, i) =>
			hosts.set(h.name,
				{ x: slot + (i + 0.5) * pitch, y: line, turned, room: pitch - 6 }));
		switches.set(s, { x: slot + size / 2 });
		slot += size + 0.6 * pitch;
	}
	for (const row of above)
		row.forEach((s, i) => switches.set(s, { x: (i + 0.5) * width / row.length }));
	const nameOf = new Map(net.switches.map((s) => [s.switch, s.name]));
	[bottom, ...above].forEach((row, depth) => {
		const places = row.map((s) => switches.get(s));
		const gaps = places.slice(1).map((p, i) => p.x - places[i].x);
		const free = Math.min(...gaps, WIDE + 10) - 10;
		const longest = Math.max(0, ...row.map((s) => measure(nameOf.get(s)))) + 12;
		const narrow = longest > Math.max(free, 0) && free < WIDE;
		for (const place of places) {
			place.y = line - (depth + 1) * gap;
			place.turned = narrow;
			place.w = narrow ? Math.min(22, free + 6)
				: Math.max(longest, Math.min(free, WIDE));
			place.h = narrow ? longest : 30;
		}
	});
	return { width, height, switches, hosts };
}

/* The curve of a link from @a to @b, as { from, bend, to }. The @k-th of @n links between the same
   switches bends to its side. A link within a tier bends upwards, around the switches between. */
export function curve(a, b, k = 0, n = 1) {
	const [dx, dy] = [b.x - a.x, b.y - a.y], far = Math.hypot(dx, dy) || 1;
	const aside = (k - (n - 1) / 2) * 22;
	const up = Math.abs(dy) < 1 ? Math.min(TIER, Math.abs(dx) * 0.4) : 0;
	return {
		from: [a.x, a.y],
		bend: [(a.x + b.x) / 2 - dy / far * aside, (a.y + b.y) / 2 + dx / far * aside - up],
		to: [b.x, b.y],
	};
}

/* The point of @curve at @t, from 0 to 1. */
export function along({ from, bend, to }, t) {
	const at = (i) => (1 - t) ** 2 * from[i] + 2 * t * (1 - t) * bend[i] + t ** 2 * to[i];
	return [at(0), at(1)];
}

export const reversed = ({ from, bend, to }) => ({ from: to, bend, to: from });

/* The width of a link with @bits a second: 1 Mbit/s and less is thin, 10 Gbit/s wide. */
export const thickness = (bits) => 1.5 + 6.5 * Math.min(1, Math.max(0, Math.log10(bits / 1e6) / 4));
