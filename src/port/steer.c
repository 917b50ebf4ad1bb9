/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/steer.c: the methods of steer.h: tries them with the driver, adds and removes rules.
 */
#include "port/steer.h"
#include "port/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FORMS 2 /* limit of pattern forms of a method */
#define TRIAL 1 /* queue of trial rules */

struct hk_steer {
	unsigned form;
	struct rule {
		struct rte_flow *flow; /* NULL: none */
		bool mac;              /* the port accepts frames to `addr` because of this rule */
		struct rte_ether_addr addr;
	} rule[HK_STEER_MAX_QUEUES];
	bool promiscuous; /* the port accepts all frames instead */
};

static const struct {
	const char *name, *text;
} methods[HK_STEER_METHODS] = {
	[HK_STEER_ENDPOINT] = {"endpoint", "hardware rule by endpoint field"},
	[HK_STEER_MAC] = {"mac", "hardware rule by MAC"},
	[HK_STEER_UDP] = {"udp", "hardware rule by UDP port"},
	[HK_STEER_QUEUE_INDEX] = {"queue_index", "queue index (memif)"},
	[HK_STEER_SOFTWARE] = {"software", "software"},
};

const char *hk_steer_method_text(enum hk_steer_method method)
{
	return methods[method].text;
}

const char *hk_steer_method_name(enum hk_steer_method method)
{
	return methods[method].name;
}

/* ---- reasons --------------------------------------------------------------------------------- */

/* Makes a driver's text safe for JSON and terminals. */
static void make_plain(char *text)
{
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
			*c = '?';
}

#define REASON_LEN sizeof(((struct hk_steer_report *)0)->refusal)

__attribute__((format(printf, 2, 3))) static void set_reason(char why[REASON_LEN], const char *fmt,
							     ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, REASON_LEN, fmt, ap);
	va_end(ap);
	make_plain(why);
}

/* Sets the reason to the driver's message, or to @rc if it has none. @step: what failed. */
static void set_driver_reason(char why[REASON_LEN], const char *driver, const char *step, int rc,
			      const struct rte_flow_error *e)
{
	if (rc == -ENOSYS)
		set_reason(why, "%s has no rte_flow", driver);
	else
		set_reason(why, "%s: %s%s", driver, step,
			   e && e->message ? e->message : rte_strerror(-rc));
}

/* ---- a rule ---------------------------------------------------------------------------------- */

/* Makes the port accept frames to @match's address, which is not its own. */
static int accept_mac(struct hk_port_impl *p, struct rule *r, const struct hk_steer_match *match,
		      char why[REASON_LEN])
{
	memcpy(r->addr.addr_bytes, match->mac, sizeof(match->mac));
	int rc = rte_eth_dev_mac_addr_add(p->port.id, &r->addr, 0);

	r->mac = rc == 0;
	if (rc == -ENOTSUP) {
		rc = rte_eth_promiscuous_enable(p->port.id);
		p->steer->promiscuous |= rc == 0;
	}
	if (rc)
		set_driver_reason(why, p->port.info.driver, "takes in no second MAC address: ", rc,
				  NULL);
	return rc;
}

static void drop_mac(struct hk_port_impl *p, struct rule *r)
{
	if (r->mac)
		(void)rte_eth_dev_mac_addr_remove(p->port.id, &r->addr);
	r->mac = false;
}

static int make_rule(struct hk_port_impl *p, enum hk_steer_method method, unsigned queue,
		     const struct hk_steer_match *match, char why[REASON_LEN])
{
	const struct rte_flow_attr in = {.ingress = 1};
	const struct rte_flow_action_queue to = {.index = (uint16_t)queue};
	const struct rte_flow_action action[] = {
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	struct rule *r = &p->steer->rule[queue];
	struct hk_steer_pattern pattern;
	struct rte_flow_error e = {0};

	if (!hk_steer_pattern(&pattern, method, p->steer->form, match)) {
		set_reason(why, "a rule for it cannot be written");
		return -EINVAL;
	}
	int rc = method == HK_STEER_MAC ? accept_mac(p, r, match, why) : 0;

	if (rc)
		return rc;
	rc = rte_flow_validate(p->port.id, &in, pattern.item, action, &e);
	if (rc) {
		set_driver_reason(why, p->port.info.driver, "", rc, &e);
	} else {
		e = (struct rte_flow_error){0};
		r->flow = rte_flow_create(p->port.id, &in, pattern.item, action, &e);
		if (!r->flow) {
			rc = rte_errno ? -rte_errno : -EIO;
			set_driver_reason(why, p->port.info.driver,
					  "validates a rule and does not make it: ", rc, &e);
		}
	}
	if (rc)
		drop_mac(p, r);
	return rc;
}

static int drop_rule(struct hk_port_impl *p, unsigned queue, char why[REASON_LEN])
{
	struct rule *r = &p->steer->rule[queue];
	struct rte_flow_error e = {0};
	int rc = rte_flow_destroy(p->port.id, r->flow, &e);

	if (rc)
		set_driver_reason(why, p->port.info.driver, "does not remove a rule: ", rc, &e);
	r->flow = NULL;
	drop_mac(p, r);
	return rc;
}

static int forget_all(struct hk_port_impl *p, char why[REASON_LEN])
{
	struct rte_flow_error e = {0};
	int rc = rte_flow_flush(p->port.id, &e);

	if (rc)
		set_driver_reason(why, p->port.info.driver, "does not flush its rules: ", rc, &e);
	return rc;
}

/* ---- choice of the method -------------------------------------------------------------------- */

/* Returns whether the method works, in one of its forms. */
static bool try_method(struct hk_port_impl *p, enum hk_steer_method method,
		       const struct hk_steer_match *sample)
{
	char *why = p->steering.why[method], other[REASON_LEN] = "";
	struct hk_steer_pattern pattern;

	for (unsigned form = 0; form < FORMS; form++) {
		if (!hk_steer_pattern(&pattern, method, form, sample))
			break;
		p->steer->form = form;
		/* if several forms fail, report the reason against the first one */
		if (make_rule(p, method, TRIAL, sample, form ? other : why) != 0)
			continue;
		if (drop_rule(p, TRIAL, why) != 0)
			return false;
		*why = '\0';
		return true;
	}
	if (!*why)
		set_reason(why, "%s",
			   method == HK_STEER_UDP ? "frames are not sent over UDP"
						  : "its users do not differ in it");
	return false;
}

void hk_steer_set_software(struct hk_port_impl *p, const char *why)
{
	p->steering.method = HK_STEER_SOFTWARE;
	for (int i = 0; i < HK_STEER_QUEUE_INDEX; i++)
		set_reason(p->steering.why[i], "%s", why);
}

void hk_steer_begin(struct hk_port_impl *p, const struct hk_steer_match *sample)
{
	struct hk_steer_report *report = &p->steering;
	char why[REASON_LEN];

	p->steer = calloc(1, sizeof(*p->steer));
	if (!p->steer) {
		hk_steer_set_software(p, "no memory");
		return;
	}
	/* Rules of an earlier process would send frames to other queues. A driver without rte_flow
	 * has none. */
	int rc = forget_all(p, why);
	if (rc) {
		hk_steer_set_software(p, why);
	} else {
		report->method = HK_STEER_ENDPOINT;
		while (report->method < HK_STEER_QUEUE_INDEX &&
		       !try_method(p, report->method, sample))
			report->method++;
		if (report->method < HK_STEER_QUEUE_INDEX)
			return;
	}
	report->method = HK_STEER_SOFTWARE;
	hk_steer_end(p);
}

void hk_steer_end(struct hk_port_impl *p)
{
	char why[REASON_LEN];

	if (!p->steer)
		return;
	for (unsigned q = 0; q < HK_STEER_MAX_QUEUES; q++)
		if (p->steer->rule[q].flow)
			(void)drop_rule(p, q, why);
	(void)forget_all(p, why); /* rules that a driver did not remove one by one */
	if (p->steer->promiscuous)
		(void)rte_eth_promiscuous_disable(p->port.id);
	free(p->steer);
	p->steer = NULL;
	p->steering.rules = 0;
}

void hk_port_steering(const struct hk_port *port, struct hk_steer_report *out)
{
	const struct hk_port_impl *p = (const struct hk_port_impl *)port;
	const struct hk_port_info *info = &port->info;

	*out = p->steering;
	out->queues = info->queues;
	if (p->steer)
		return;
	bool by_index = info->point_to_point && info->queues > 1;

	out->method = by_index ? HK_STEER_QUEUE_INDEX : HK_STEER_SOFTWARE;
	for (int i = 0; i < HK_STEER_QUEUE_INDEX; i++)
		if (!*out->why[i])
			set_reason(out->why[i], "not asked: %s",
				   by_index               ? "the sender's queue is the receiver's"
				   : info->point_to_point ? "a wire that is polled as one queue"
							  : "its kind is opened with one queue");
	if (!by_index)
		set_reason(out->why[HK_STEER_QUEUE_INDEX], "%s",
			   info->point_to_point ? "the wire has one queue for all"
						: "it is not a memif");
}

int hk_steer_known(const char *spec, struct hk_steer_report *out, struct hk_error *err)
{
	struct hk_port_impl p = {.port.info.queues = 1};
	int rc = hk_spec_parse(spec, &p.spec, err);

	if (rc == 0 && p.spec.take_all)
		rc = hk_device_check_uplink(&p.spec, err);
	if (rc)
		return rc;
	if (p.spec.kind == HK_SPEC_PCI || p.spec.kind == HK_SPEC_VDEV)
		return 0;
	p.port.info.point_to_point = p.spec.kind == HK_SPEC_MEMIF ||
				     p.spec.kind == HK_SPEC_MEMIF_SET;
	if (p.spec.kind == HK_SPEC_MEMIF_SET)
		p.port.info.queues = 2; /* or more: one for each pair of users */
	hk_port_steering(&p.port, out);
	return 1;
}

/* ---- rules of users -------------------------------------------------------------------------- */

int hk_steer_add(struct hk_port *port, unsigned queue, const struct hk_steer_match *match,
		 struct hk_error *err)
{
	struct hk_port_impl *p = (struct hk_port_impl *)port;
	struct hk_steer_report *report = &p->steering;

	if (!p->steer)
		return hk_error_set(err, -ENOTSUP,
				    "port %s: no hardware rule works on it; fix: steer its frames "
				    "in software",
				    p->spec.text);
	if (queue == 0 || queue >= port->info.queues || p->steer->rule[queue].flow)
		return hk_error_set(err, -EINVAL, "port %s: queue %u %s", p->spec.text, queue,
				    queue && queue < port->info.queues ? "has a rule already"
								       : "cannot have a rule");
	int rc = make_rule(p, report->method, queue, match, report->refusal);

	if (rc) {
		report->rules_refused++;
		return hk_error_set(err, rc,
				    "port %s: no rule for queue %u: %s; fix: none is needed, since "
				    "software steers its frames; fewer users of the port need "
				    "fewer rules",
				    p->spec.text, queue, report->refusal);
	}
	report->rules++;
	return 0;
}

void hk_steer_remove(struct hk_port *port, unsigned queue)
{
	struct hk_port_impl *p = (struct hk_port_impl *)port;

	if (!p->steer || queue >= HK_STEER_MAX_QUEUES || !p->steer->rule[queue].flow)
		return;
	(void)drop_rule(p, queue, p->steering.refusal);
	p->steering.rules--;
}
