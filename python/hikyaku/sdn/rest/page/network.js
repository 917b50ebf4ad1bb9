/* SPDX-License-Identifier: BSD-3-Clause */
/* The network as the page shows it, from the answers of REST. Nothing here touches the document. */

export const order = new Intl.Collator("en", { numeric: true });

/* The name of a port within this page. */
export const end = (port) => `${port.switch}:${port.port}`;

/* A host has one name and an interface for each address. Without a name, each address is a host. */
function machines(hosts) {
	const found = new Map();
	for (const host of hosts) {
		const name = host.name || host.address;
		if (!found.has(name)) found.set(name, { name, interfaces: [], ranks: new Map() });
		const machine = found.get(name);
		machine.interfaces.push(host);
		for (const { job, rank } of host.ranks) {
			if (!machine.ranks.has(job)) machine.ranks.set(job, []);
			machine.ranks.get(job).push(rank);
		}
	}
	const all = [...found.values()].sort((a, b) => order.compare(a.name, b.name));
	for (const machine of all) {
		machine.interfaces.sort(
			(a, b) => order.compare(a.interface || "", b.interface || ""));
		machine.at = machine.interfaces[0].switch;
	}
	return all;
}

/* { switches, links, hosts, jobs }. A link is one between switches: { name, a, b, load, cut }. */
export function network(status, topology, jobs) {
	const switches = topology.switches.map((s) => ({ ...s, ...status.switches[s.switch] }));
	const links = [
		...topology.links.map((l) =>
			({ ...l, cut: false, load: Math.max(l.bits_a_to_b, l.bits_b_to_a) })),
		...topology.lost_links.map((l) => ({ ...l, cut: true, load: 0 })),
	].sort((a, b) => order.compare(a.name, b.name));
	return { switches, links, hosts: machines(topology.hosts), jobs };
}

/* "0–3, 8" from the numbers [0, 1, 2, 3, 8]. */
export function ranges(numbers) {
	const parts = [];
	for (const n of [...new Set(numbers)].sort((a, b) => a - b)) {
		const last = parts.at(-1);
		if (last && last[1] === n - 1) last[1] = n;
		else parts.push([n, n]);
	}
	return parts.map(([a, b]) => a === b ? `${a}` : `${a}–${b}`).join(", ");
}

/* The ranks of @host, as "ranks 0–3"; with several jobs as "job 1: 0–3; job 2: 0". */
export function ranksOf(host, jobs) {
	const each = [...host.ranks];
	if (jobs.length === 1 && each.length === 1)
		return `rank${each[0][1].length > 1 ? "s" : ""} ${ranges(each[0][1])}`;
	return each.map(([job, ranks]) => `job ${job}: ${ranges(ranks)}`).join("; ");
}
