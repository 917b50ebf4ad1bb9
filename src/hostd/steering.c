/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/steering.c: the rules by which a NIC steers frames to ranks; the port query of `hikyaku
 * doctor`.
 */
#include "hostd/steering.h"
#include "wire/wire.h"

#include <errno.h>
#include <string.h>

#define ASK_QUEUES  3
#define ASK_BUFFERS 512
#define ASK_OPEN_MS 5000
#define ASK_MB      128

void hk_steering_match(unsigned slot, uint32_t endpoint, const uint8_t mac[6],
		       struct hk_steer_match *m)
{
	*m = (struct hk_steer_match){
		.ether_type = HK_WIRE_ETHERTYPE,
		.offset = HK_ETH_HLEN + offsetof(struct hk_wire_hdr, dst),
		.len = sizeof(endpoint),
		.has_mac = true,
	};
	for (unsigned i = 0; i < sizeof(endpoint); i++) {
		m->value[i] = (uint8_t)(endpoint >> 8 * i);
		m->mask[i] = 0xff;
	}
	/* as unique as the port's own address: its last five bytes, after a first byte of a locally
	 * administered address */
	memcpy(m->mac, mac, sizeof(m->mac));
	m->mac[0] = (uint8_t)(((mac[0] ^ (slot + 1) << 2) & 0xfc) | 2);
}

int hk_steering_open(const char *spec, unsigned buffers, unsigned slots, int timeout_ms,
		     struct hk_port **port, struct hk_error *err)
{
	static const uint8_t any[6] = {2, 0x48, 0x4b};
	struct hk_steer_match sample;

	hk_steering_match(0, UINT32_MAX, any, &sample);
	return hk_port_open_steered(spec, buffers, slots + 1, &sample, timeout_ms, port, err);
}

void hk_steering_add(struct hk_port *port, unsigned slot, uint32_t endpoint, uint8_t mac[6])
{
	struct hk_steer_report report;
	struct hk_steer_match m;
	struct hk_error err;

	memcpy(mac, port->info.mac, sizeof(port->info.mac));
	hk_steering_match(slot, endpoint, mac, &m);
	if (hk_steer_add(port, slot + 1, &m, &err) != 0)
		return;
	hk_port_steering(port, &report);
	if (report.method == HK_STEER_MAC)
		memcpy(mac, m.mac, sizeof(m.mac));
}

void hk_steering_remove(struct hk_port *port, unsigned slot)
{
	hk_steer_remove(port, slot + 1);
}

void hk_steering_describe(const struct hk_steer_report *report, struct hk_res_steering *out)
{
	*out = (struct hk_res_steering){
		.method = hk_steer_method_name(report->method),
		.text = hk_steer_method_text(report->method),
	};
#define COPY(name, ...) out->name = report->name;
	HK_STEERING_GAUGES(COPY)
	HK_STEERING_COUNTERS(COPY)
#undef COPY
	memcpy(out->refusal, report->refusal, sizeof(out->refusal));
	for (unsigned i = 0; i < (unsigned)report->method && i < HK_RES_BETTER; i++) {
		out->better[i].method = hk_steer_method_name(i);
		out->better[i].text = hk_steer_method_text(i);
		memcpy(out->better[i].why, report->why[i], sizeof(out->better[i].why));
	}
}

enum hk_ctl_mode hk_res_default_mode(const char *spec)
{
	const char *why;

	return hk_port_spec_shares_queues(spec, &why) ? HK_CTL_HYBRID : HK_CTL_DAEMON;
}

int hk_res_ask_port(const char *spec, struct hk_res_steering *out, struct hk_error *err)
{
	struct hk_eal_config eal = {.memory_mb = ASK_MB};
	struct hk_steer_report report;
	struct hk_port *port;
	int rc = hk_steer_known(spec, &report, err);

	if (rc < 0)
		return -EINVAL;
	if (rc > 0) {
		hk_steering_describe(&report, out);
		snprintf(out->driver, sizeof(out->driver), "net_%.*s", (int)strcspn(spec, ":"),
			 spec);
		return 0;
	}
	rc = hk_port_spec_eal(spec, &eal, err);
	if (rc)
		return rc;
	rc = hk_eal_init(&eal, err);
	if (rc == 0)
		rc = hk_steering_open(spec, ASK_BUFFERS, ASK_QUEUES - 1, ASK_OPEN_MS, &port, err);
	if (rc) /* -EINVAL is only for a wrong spec */
		return rc == -EINVAL ? -EIO : rc;
	hk_port_steering(port, &report);
	hk_steering_describe(&report, out);
	snprintf(out->driver, sizeof(out->driver), "%s", port->info.driver);
	hk_port_close(port);
	return 0;
}
