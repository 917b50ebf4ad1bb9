/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/steer.c: the ladder of steer.h: asks the driver for rungs, makes rules and takes them away.
 */
#include "port/steer.h"
#include "port/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FORMS 2 /* the most that a rung has */
#define TRIAL 1 /* the queue that trial rules lead to */

struct hk_steer {
	unsigned form;
	struct rule {
		struct rte_flow *flow; /* NULL: none */
		bool mac;              /* of this address the port has been told … */
		struct rte_ether_addr addr;
	} rule[HK_STEER_MAX_QUEUES];
	bool promiscuous; /* … or it takes all */
};

static const struct {
	const char *name, *text;
} rungs[HK_STEER_RUNGS] = {
	[HK_STEER_ENDPOINT] = {"endpoint", "hardware rule by endpoint field"},
	[HK_STEER_MAC] = {"mac", "hardware rule by MAC"},
	[HK_STEER_UDP] = {"udp", "hardware rule by UDP port"},
	[HK_STEER_QUEUE_INDEX] = {"queue_index", "queue index (memif)"},
	[HK_STEER_SOFTWARE] = {"software", "software"},
};

const char *hk_steer_rung_text(enum hk_steer_rung rung)
{
	return rungs[rung].text;
}

const char *hk_steer_rung_name(enum hk_steer_rung rung)
{
	return rungs[rung].name;
}

/* ---- reasons --------------------------------------------------------------------------------- */

/* A driver's text is shown in JSON and on terminals. */
static void keep_plain(char *text)
{
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
			*c = '?';
}

#define WHY sizeof(((struct hk_steer_report *)0)->refusal)

__attribute__((format(printf, 2, 3))) static void say(char why[WHY], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, WHY, fmt, ap);
	va_end(ap);
	keep_plain(why);
}

/* @step failed with @rc. */
static void say_driver(char why[WHY], const char *driver, const char *step, int rc,
		       const struct rte_flow_error *e)
{
	if (rc == -ENOSYS)
		say(why, "%s has no rte_flow", driver);
	else
		say(why, "%s: %s%s", driver, step,
		    e && e->message ? e->message : rte_strerror(-rc));
}

/* ---- a rule ---------------------------------------------------------------------------------- */

/* Has the port take in frames to @match's address, which is not its own. */
static int open_mac(struct hk_port_impl *p, struct rule *r, const struct hk_steer_match *match,
		    char why[WHY])
{
	memcpy(r->addr.addr_bytes, match->mac, sizeof(match->mac));
	int rc = rte_eth_dev_mac_addr_add(p->port.id, &r->addr, 0);

	r->mac = rc == 0;
	if (rc == -ENOTSUP) {
		rc = rte_eth_promiscuous_enable(p->port.id);
		p->steer->promiscuous |= rc == 0;
	}
	if (rc)
		say_driver(why, p->port.info.driver, "takes in no second MAC address: ", rc, NULL);
	return rc;
}

static void close_mac(struct hk_port_impl *p, struct rule *r)
{
	if (r->mac)
		(void)rte_eth_dev_mac_addr_remove(p->port.id, &r->addr);
	r->mac = false;
}

static int make_rule(struct hk_port_impl *p, enum hk_steer_rung rung, unsigned queue,
		     const struct hk_steer_match *match, char why[WHY])
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

	if (!hk_steer_pattern(&pattern, rung, p->steer->form, match)) {
		say(why, "a rule for it cannot be written");
		return -EINVAL;
	}
	int rc = rung == HK_STEER_MAC ? open_mac(p, r, match, why) : 0;

	if (rc)
		return rc;
	rc = rte_flow_validate(p->port.id, &in, pattern.item, action, &e);
	if (rc) {
		say_driver(why, p->port.info.driver, "", rc, &e);
	} else {
		e = (struct rte_flow_error){0};
		r->flow = rte_flow_create(p->port.id, &in, pattern.item, action, &e);
		if (!r->flow) {
			rc = rte_errno ? -rte_errno : -EIO;
			say_driver(why, p->port.info.driver,
				   "validates a rule and does not make it: ", rc, &e);
		}
	}
	if (rc)
		close_mac(p, r);
	return rc;
}

static int drop_rule(struct hk_port_impl *p, unsigned queue, char why[WHY])
{
	struct rule *r = &p->steer->rule[queue];
	struct rte_flow_error e = {0};
	int rc = rte_flow_destroy(p->port.id, r->flow, &e);

	if (rc)
		say_driver(why, p->port.info.driver, "does not remove a rule: ", rc, &e);
	r->flow = NULL;
	close_mac(p, r);
	return rc;
}

static int forget_all(struct hk_port_impl *p, char why[WHY])
{
	struct rte_flow_error e = {0};
	int rc = rte_flow_flush(p->port.id, &e);

	if (rc)
		say_driver(why, p->port.info.driver, "does not flush its rules: ", rc, &e);
	return rc;
}

/* ---- the ladder ------------------------------------------------------------------------------ */

/* Can the rung be had, in one of its forms? */
static bool try_rung(struct hk_port_impl *p, enum hk_steer_rung rung,
		     const struct hk_steer_match *sample)
{
	char *why = p->steering.why[rung], later[WHY] = "";
	struct hk_steer_pattern pattern;

	for (unsigned form = 0; form < FORMS; form++) {
		if (!hk_steer_pattern(&pattern, rung, form, sample))
			break;
		p->steer->form = form;
		/* of several refusals, the one of the straightforward form is told */
		if (make_rule(p, rung, TRIAL, sample, form ? later : why) != 0)
			continue;
		if (drop_rule(p, TRIAL, why) != 0)
			return false;
		*why = '\0';
		return true;
	}
	if (!*why)
		say(why, "%s",
		    rung == HK_STEER_UDP ? "frames are not sent over UDP"
					 : "its users are not told apart by it");
	return false;
}

void hk_steer_out(struct hk_port_impl *p, const char *why)
{
	p->steering.rung = HK_STEER_SOFTWARE;
	for (int i = 0; i < HK_STEER_QUEUE_INDEX; i++)
		say(p->steering.why[i], "%s", why);
}

void hk_steer_begin(struct hk_port_impl *p, const struct hk_steer_match *sample)
{
	struct hk_steer_report *report = &p->steering;
	char why[WHY];

	p->steer = calloc(1, sizeof(*p->steer));
	if (!p->steer) {
		hk_steer_out(p, "no memory");
		return;
	}
	/* Rules of an earlier process would take frames elsewhere. A driver that knows no rules has none. */
	int rc = forget_all(p, why);
	if (rc) {
		hk_steer_out(p, why);
	} else {
		report->rung = HK_STEER_ENDPOINT;
		while (report->rung < HK_STEER_QUEUE_INDEX && !try_rung(p, report->rung, sample))
			report->rung++;
		if (report->rung < HK_STEER_QUEUE_INDEX)
			return;
	}
	report->rung = HK_STEER_SOFTWARE;
	hk_steer_end(p);
}

void hk_steer_end(struct hk_port_impl *p)
{
	char why[WHY];

	if (!p->steer)
		return;
	for (unsigned q = 0; q < HK_STEER_MAX_QUEUES; q++)
		if (p->steer->rule[q].flow)
			(void)drop_rule(p, q, why);
	(void)forget_all(p, why); /* what a driver did not let go one by one */
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

	out->rung = by_index ? HK_STEER_QUEUE_INDEX : HK_STEER_SOFTWARE;
	for (int i = 0; i < HK_STEER_QUEUE_INDEX; i++)
		if (!*out->why[i])
			say(out->why[i], "not asked: %s",
			    by_index               ? "the sender's queue is the receiver's"
			    : info->point_to_point ? "a wire that is polled as one queue"
						   : "its kind is opened with one queue");
	if (!by_index)
		say(out->why[HK_STEER_QUEUE_INDEX], "%s",
		    info->point_to_point ? "the wire has one queue for all" : "it is no memif");
}

int hk_steer_known(const char *spec, struct hk_steer_report *out, struct hk_error *err)
{
	struct hk_port_impl p = {.port.info.queues = 1};
	int rc = hk_spec_parse(spec, &p.spec, err);

	if (rc)
		return rc;
	if (p.spec.kind == HK_SPEC_PCI || p.spec.kind == HK_SPEC_VDEV)
		return 0;
	p.port.info.point_to_point = p.spec.kind == HK_SPEC_MEMIF ||
				     p.spec.kind == HK_SPEC_MEMIF_SET;
	if (p.spec.kind == HK_SPEC_MEMIF_SET)
		p.port.info.queues = 2; /* or more: there is one for each pair of users */
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
				    "port %s: no hardware rule works on it; fix: tell its frames "
				    "apart in software",
				    p->spec.text);
	if (queue == 0 || queue >= port->info.queues || p->steer->rule[queue].flow)
		return hk_error_set(err, -EINVAL, "port %s: queue %u %s", p->spec.text, queue,
				    queue && queue < port->info.queues
					    ? "has a rule already"
					    : "is none that rules may lead to");
	int rc = make_rule(p, report->rung, queue, match, report->refusal);

	if (rc) {
		report->refused++;
		return hk_error_set(err, rc,
				    "port %s: no rule for queue %u: %s; fix: none is needed, its "
				    "frames are told apart in software; fewer users of the port "
				    "need fewer rules",
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
