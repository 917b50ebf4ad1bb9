/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks the controller every 1.5 s, and shows the answers. */

import * as choice from "./choice.js";
import { draw, drawLegend } from "./map.js";
import { network } from "./network.js";
import { write, writeWay } from "./tables.js";

const EVERY = 1500;
const byId = (id) => document.getElementById(id);
let net, functions;

async function get(path) {
	const answer = await fetch(path);
	const said = await answer.json();
	if (!answer.ok) throw new Error(said.error || `${path}: ${answer.status}`);
	return said;
}

async function way(path) {
	if (!path) return [null, choice.wrong()];
	try {
		return [{ ...await get(path), from: choice.sender(net) }, ""];
	} catch (bad) {
		return [null, bad.message];
	}
}

async function refresh() {
	const summary = byId("summary");
	try {
		functions ||= await get("/v1/functions");
		const answers = await Promise.all(
			["/v1/status", "/v1/topology", "/v1/jobs"].map(get));
		net = network(...answers);
		choice.offerAll(net, functions);
		const path = choice.path(), [shown, wrong] = await way(path);
		const { clientWidth: width, clientHeight: height } = byId("frame");
		draw(byId("map"), { width, height }, net, shown);
		write(net, answers[0]);
		writeWay(net, shown, wrong);
		summary.className = "";
		document.body.dataset.ready = path || "nothing";
	} catch (bad) {
		summary.textContent = `the controller does not answer (${bad.message})`;
		summary.className = "bad";
	}
}

drawLegend(byId("legend"));
choice.start(() => net, refresh);
addEventListener("resize", refresh);
refresh();
setInterval(refresh, EVERY);
