/* SPDX-License-Identifier: BSD-3-Clause */
/* The way that the page shows: chosen in the form, or by the page's address, /?show=PATH. PATH
   is a path call of REST: /v1/path?… for frames without a tag, /v1/jobs/N/path?… for tags. */

const byId = (id) => document.getElementById(id);
const UNTAGGED = "untagged";

/* The choice of the user, as the values of the form's fields; job "" shows nothing. */
let chosen = { job: "", function: "bcast", source: "", destination: "" };
let refused = "";  /* the PATH of the address, if it does not ask for a path */

/* A destination is a rank, or a group such as "group 0". */
export function path() {
	const { job, source, destination } = chosen;
	if (!job) return "";
	if (job === UNTAGGED) return `/v1/path?${new URLSearchParams({ source, destination })}`;
	const [, group] = destination.match(/^group (\d+)$/) || [];
	const query = { function: chosen.function, source };
	Object.assign(query, group === undefined ? { destination } : { group });
	return `/v1/jobs/${job}/path?${new URLSearchParams(query)}`;
}

function read(address) {
	const asked = new URL(address, location.origin), query = asked.searchParams;
	const [, job] = asked.pathname.match(/^\/v1\/jobs\/(\d+)\/path$/) || [];
	const known = job || asked.pathname === "/v1/path";
	if (asked.origin !== location.origin || !known) return false;
	chosen = {
		job: job || UNTAGGED,
		function: query.get("function") || "p2p",
		source: query.get("source") || (job ? "0" : ""),
		destination: query.has("group") ? `group ${query.get("group")}`
			: query.get("destination") || (job ? "0" : ""),
	};
	return true;
}

/* Puts @options, as [value, text], into a field; what is chosen stays, also if it is not there. */
function offer(id, options, hidden) {
	const field = byId(id);
	if (byId(`for-${id}`)) byId(`for-${id}`).hidden = hidden;
	if (chosen[id] && !options.some(([value]) => value === chosen[id]))
		options = [...options, [chosen[id], chosen[id]]];
	const same = [...field.options].map((o) => `${o.value}\n${o.text}`).join("\n");
	if (same !== options.map((o) => o.join("\n")).join("\n"))
		field.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
	field.value = chosen[id];
}

/* The nodes of ranks, or all addresses. */
function ends(net) {
	const interfaces = net.hosts.flatMap(
		(h) => h.interfaces.map((i) => ({ ...i, host: h.name })));
	const job = net.jobs.find((j) => `${j.job}` === chosen.job);
	if (!job)
		return interfaces.map((i) => [i.address, `${i.host} ${i.interface || ""}`.trim()]);
	const at = new Map(interfaces.map((i) => [i.address, i.host]));
	return Object.entries(job.ranks).map(([rank, address]) =>
		[rank, `rank ${rank}, ${at.get(address) || "not seen yet"}`]);
}

function groups(net) {
	const job = net.jobs.find((j) => `${j.job}` === chosen.job);
	if (!job) return [];
	const numbers = [...new Set(["0", ...Object.keys(job.groups)])];
	return numbers.map((g) => [`group ${g}`, g === "0" && !job.groups[0] ? "group 0, all ranks"
		: `group ${g}, ${job.groups[g].length} ranks`]);
}

/* Shows in the form what can be chosen in @net. */
export function offerAll(net, functions) {
	const tagged = chosen.job && chosen.job !== UNTAGGED;
	offer("job", [["", "nothing"], [UNTAGGED, "without a tag"],
		...net.jobs.map((j) => [`${j.job}`, `job ${j.job} ${j.name}`])]);
	offer("function", functions.map((name) => [name, name]), !tagged);
	const hosts = ends(net);
	offer("source", hosts, !chosen.job);
	offer("destination", [...groups(net), ...hosts], !chosen.job);
}

/* Another kind of frames has other ends: from the first to the last, or to all. */
function restart(net) {
	const hosts = ends(net);
	chosen.source = hosts[0]?.[0] || "";
	chosen.destination = groups(net)[0]?.[0] || hosts.at(-1)?.[0] || "";
	if (chosen.destination.startsWith("group")) chosen.function = "bcast";
}

/* @current() gives the network; @changed() is called after each choice. */
export function start(current, changed) {
	const asked = new URLSearchParams(location.search).get("show");
	if (asked && !read(asked)) refused = asked;
	byId("choice").addEventListener("change", ({ target }) => {
		refused = "";
		chosen[target.id] = target.value;
		if (target.id === "job") restart(current());
		if (target.id === "function" && target.value === "bcast")
			chosen.destination = "group 0";
		else if (target.id === "function" && chosen.destination.startsWith("group"))
			chosen.destination = ends(current()).at(-1)?.[0] || "0";
		const show = path();
		history.replaceState(null, "", show ? `/?show=${encodeURIComponent(show)}` : "/");
		changed();
	});
}

/* The address of the chosen sender; undefined: it is unknown. */
export function sender(net) {
	if (chosen.job === UNTAGGED) return chosen.source;
	return net.jobs.find((j) => `${j.job}` === chosen.job)?.ranks[chosen.source];
}

/* Why nothing can be shown, or "". */
export const wrong = () => refused && `${refused} cannot be shown: give /?show=/v1/path?… or ` +
	"/?show=/v1/jobs/N/path?…";
