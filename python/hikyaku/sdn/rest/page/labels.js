/* SPDX-License-Identifier: BSD-3-Clause */
/* The width of texts, and places for them where nothing else is written. */

const HEIGHT = 14;
const pen = document.createElement("canvas").getContext("2d");

export function measure(text, font = "12px system-ui, sans-serif") {
	pen.font = font;
	return pen.measureText(text).width;
}

/* Where on a link its label is tried, in this order. Not in the middle, where arrows are. */
const PLACES = [0.4, 0.6, 0.34, 0.66, 0.28, 0.72, 0.22, 0.78, 0.16, 0.84];

/* The length that two ranges share. */
const common = (a, b, from, to) => Math.max(0, Math.min(b, to) - Math.max(a, from));

/* Boxes that are taken. */
export class Room {
	#taken = [];

	take(x, y, w, h) {
		this.#taken.push([x - w / 2, y - h / 2, x + w / 2, y + h / 2]);
	}

	/* The area that a box there would share with those that are taken. */
	#shared(x, y, w, h) {
		const [a, b, c, d] = [x - w / 2, y - h / 2, x + w / 2, y + h / 2];
		const shared = this.#taken.map(
			([e, f, g, i]) => common(a, c, e, g) * common(b, d, f, i));
		return shared.reduce((sum, area) => sum + area, 0);
	}

	/* Takes a place for @text on a link, of which @at(t) is a point. @must: also where none is
	   free. Returns [x, y], or undefined. */
	put(text, at, { must, width }) {
		const w = measure(text, "600 12px system-ui, sans-serif") + 4;
		let best;
		for (const t of PLACES) {
			const [x, y] = at(t);
			const inside = Math.min(Math.max(x, w / 2), width - w / 2);
			const shared = this.#shared(inside, y, w, HEIGHT);
			if (!best || shared < best.shared) best = { x: inside, y, shared };
			if (!shared) break;
		}
		if (best.shared && !must) return undefined;
		this.take(best.x, best.y, w, HEIGHT);
		return [best.x, best.y + 4];
	}
}
