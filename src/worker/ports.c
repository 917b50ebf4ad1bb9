/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/ports.c: opens the ports that a user lists.
 */
#include "worker/ports.h"
#include "base/say.h"
#include "worker/private.h"

#include <errno.h>
#include <string.h>

/* ---- the list ------------------------------------------------------------------------------ */

/* Takes the mark of an optional port from the end of @spec. */
static bool take_mark(char *spec)
{
	size_t len = strlen(spec);
	bool found = len > 0 && spec[len - 1] == '?';

	if (found)
		spec[len - 1] = '\0';
	return found;
}

static int check(const struct hk_ports *p, unsigned i, struct hk_error *err)
{
	if (hk_port_spec_is_wire_set(p->spec[i]) != p->wire_set)
		return hk_error_set(err, -EINVAL,
				    "%s: of %s and %s one is a set of wires (memif:dir=) and one "
				    "is not; fix: name ports of one kind",
				    p->parameter, p->spec[0], p->spec[i]);
	if (p->wire_set && p->optional[i])
		return hk_error_set(err, -EINVAL,
				    "%s: %s is a set of wires, which cannot be optional; fix: "
				    "leave out the ?",
				    p->parameter, p->spec[i]);
	for (unsigned k = 0; k < i && !hk_port_spec_repeats(p->spec[i]); k++)
		if (strcmp(p->spec[i], p->spec[k]) == 0)
			return hk_error_set(err, -EINVAL,
					    "%s names %s twice; fix: name each port once",
					    p->parameter, p->spec[i]);
	return 0;
}

int hk_ports_read(struct hk_ports *p, const char *list, const char *parameter, struct hk_error *err)
{
	int n, rc = 0;

	*p = (struct hk_ports){.parameter = parameter};
	n = hk_port_list_split(list, p->spec, HK_PATHS_MAX, err);
	if (n < 0)
		return n;
	p->count = (unsigned)n;
	for (unsigned i = 0; i < p->count; i++)
		p->optional[i] = take_mark(p->spec[i]);
	p->wire_set = hk_port_spec_is_wire_set(p->spec[0]);
	for (unsigned i = 0; rc == 0 && i < p->count; i++)
		rc = check(p, i, err);
	return rc;
}

int hk_ports_protection(const struct hk_ports *p, const char *name, const char *parameter,
			uint8_t *protection, struct hk_error *err)
{
	bool automatic = !name || !*name || strcmp(name, "auto") == 0;

	if (automatic)
		name = "off";
	for (unsigned i = 0; automatic && i < p->count; i++)
		if (!hk_port_spec_is_private(p->spec[i]))
			name = "auth";
	if (hk_protection_by_name(name, protection) == 0)
		return 0;
	return hk_error_set(err, -EINVAL,
			    "%s: there is no protection \"%s\"; fix: auto, off, crc, auth or seal",
			    parameter, name);
}

void hk_ports_text(const struct hk_ports *p, char *text, size_t len)
{
	size_t used = 0;

	*text = '\0';
	for (unsigned i = 0; i < p->count && used < len; i++)
		used += (size_t)snprintf(text + used, len - used, "%s%s", i ? "+" : "", p->spec[i]);
}

/* ---- opening ------------------------------------------------------------------------------- */

int hk_ports_start_dpdk(const struct hk_ports *p, struct hk_eal_config *eal, struct hk_error *err)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < p->count; i++)
		rc = hk_port_spec_eal(p->spec[i], eal, err);
	return rc ? rc : hk_eal_init(eal, err);
}

void hk_ports_fit(struct hk_worker_config *cfg, unsigned carries, bool point_to_point,
		  uint32_t link_mbps, bool classes)
{
	cfg->engine.classes |= classes;
	/* a wire with two ends has no queue that others share: credit is enough */
	if (point_to_point)
		cfg->engine.target_delay = HK_SEC;
	else
		cfg->engine.link_mbps += link_mbps;
	if (!cfg->frame_max || cfg->frame_max > carries)
		cfg->frame_max = carries;
}

/* How often this node's processes open the port @spec. */
static unsigned sharers_of(const struct hk_ports *p, const char *spec, unsigned processes)
{
	bool own = strstr(spec, "{local_rank}") || strstr(spec, "{rank}");
	unsigned times = 0;

	for (unsigned i = 0; i < p->count; i++)
		times += strcmp(p->spec[i], spec) == 0;
	return times * (own ? 1 : processes);
}

static int open_port(const struct hk_ports *p, const struct hk_ports_config *cfg, unsigned i,
		     struct hk_worker_config *worker, struct hk_port **port, bool *shared,
		     struct hk_error *err)
{
	unsigned sharers = sharers_of(p, p->spec[i], cfg->processes);
	int rc = hk_port_open_shared(p->spec[i], cfg->buffers, cfg->pool, sharers, cfg->timeout_ms,
				     port, err);

	if (rc == 0 && sharers > 1)
		rc = hk_port_claim(*port, worker->engine.key, worker->engine.endpoint, err);
	if (rc)
		return rc;
	*shared |= sharers > 1;
	const struct hk_port_info *info = &(*port)->info;

	hk_ports_fit(worker, info->frame_max, info->point_to_point,
		     cfg->link_mbps ? cfg->link_mbps : info->link_mbps, info->priority != 0);
	hk_say(cfg->note, "port %s, driver %s, frames of %u bytes", info->spec, info->driver,
	       info->frame_max);
	return 0;
}

/* Port @i does not open. Returns whether the worker goes without it; the next ones move up. */
static bool leave_out(struct hk_ports *p, unsigned i)
{
	if (!p->optional[i] || p->count == 1)
		return false;
	p->count--;
	for (; i < p->count; i++) {
		memcpy(p->spec[i], p->spec[i + 1], sizeof(p->spec[i]));
		p->optional[i] = p->optional[i + 1];
	}
	return true;
}

static int check_wire_sets(const struct hk_ports *p, struct hk_worker_config *worker,
			   struct hk_error *err)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < p->count; i++) {
		rc = hk_port_wire_set_check(p->spec[i], err);
		hk_ports_fit(worker, hk_port_wire_frame_max(p->spec[i]), true, 0, false);
	}
	return rc;
}

int hk_ports_open(struct hk_ports *p, const struct hk_ports_config *cfg,
		  struct hk_worker_config *worker, struct hk_port **port, bool *shared,
		  struct hk_error *err)
{
	int rc = 0;

	*shared = false;
	if (p->wire_set)
		return check_wire_sets(p, worker, err);
	for (unsigned i = 0; rc == 0 && i < p->count;) {
		rc = open_port(p, cfg, i, worker, &port[i], shared, err);
		if (rc == 0) {
			i++;
		} else if (leave_out(p, i)) {
			hk_say(cfg->note, "without an optional port: %s", err->text);
			hk_port_close(port[i]);
			port[i] = NULL;
			rc = 0;
		}
	}
	return rc;
}

int hk_ports_add(const struct hk_ports *p, struct hk_worker *worker, struct hk_port *const *port,
		 unsigned *taken, struct hk_error *err)
{
	int rc = 0;

	while (rc >= 0 && *taken < p->count && port[*taken]) {
		rc = hk_worker_add_port(worker, port[*taken], err);
		*taken += rc >= 0;
	}
	return HK_MIN(rc, 0);
}
