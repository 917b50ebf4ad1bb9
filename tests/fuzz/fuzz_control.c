/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_control.c: arbitrary bytes as a message on hikyakud's control socket.
 *
 * With bit 0 of the first byte set, the target first corrects the header (magic, version, length),
 * so that the fuzzer reaches the fields. The other bits of that byte are then the type. A message
 * that passes the check must keep the promises of hostd/control.h, and pass again.
 */
#include "hostd/control.h"
#include "tests/support/hk_test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *field, size_t size)
{
	CHECK(memchr(field, '\0', size) != NULL);
	for (const char *c = field; *c; c++)
		CHECK(*c >= ' ' && *c <= '~' && *c != '"' && *c != '\\');
}

static void check_accepted(const union hk_ctl_msg *m)
{
	switch ((enum hk_ctl_type)m->hdr.type) {
	case HK_CTL_HELLO:
		CHECK(m->hello.job_key && m->hello.local_rank < m->hello.local_ranks);
		check_text(m->hello.release, sizeof(m->hello.release));
		check_text(m->hello.host, sizeof(m->hello.host));
		break;
	case HK_CTL_WELCOME:
		CHECK(m->welcome.slot < m->welcome.slots && m->welcome.slots <= HK_CTL_MAX_SLOTS);
		CHECK(m->welcome.node_id && m->welcome.generation && m->welcome.poller <= 1);
		check_text(m->welcome.shared, sizeof(m->welcome.shared));
		check_text(m->welcome.rx_pool, sizeof(m->welcome.rx_pool));
		check_text(m->welcome.tx_pool, sizeof(m->welcome.tx_pool));
		break;
	case HK_CTL_ERROR:
		CHECK(m->error.code < 0 && memchr(m->error.text, 0, sizeof(m->error.text)));
		break;
	case HK_CTL_WIRES:
		CHECK(m->wires.count <= HK_CTL_MAX_NODES && m->wires.timeout_ms);
		for (unsigned i = 0; i < m->wires.count; i++)
			CHECK(m->wires.node[i].node_id && m->wires.node[i].slots &&
			      m->wires.node[i].slots <= HK_CTL_MAX_SLOTS);
		break;
	case HK_CTL_WIRES_READY:
		CHECK(m->wires_ready.count <= HK_CTL_MAX_NODES);
		break;
	case HK_CTL_READY:
		CHECK(m->ready.worker && m->ready.worker % 64 == 0);
		break;
	case HK_CTL_TEXT:
		CHECK(m->text.bytes <= HK_CTL_TEXT_MAX);
		break;
	default:
		CHECK(m->hdr.len == sizeof(struct hk_ctl_hdr));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static union hk_ctl_msg m, again; /* too large for the stack */
	struct hk_error err = {""};

	if (size < 1)
		return 0;
	size_t len = size - 1;
	/* a copy of exactly this size, so that a sanitizer reports each read beyond it */
	uint8_t *bytes = malloc(len ? len : 1);
	CHECK(bytes != NULL);
	memcpy(bytes, data + 1, len);
	if ((data[0] & 1) && len >= sizeof(m.hdr)) {
		struct hk_ctl_hdr h = {.magic = HK_CTL_MAGIC,
				       .version = HK_CTL_VERSION,
				       .type = data[0] >> 1 & 15,
				       .len = (uint32_t)len,
				       .seq = 1};
		memcpy(bytes, &h, sizeof(h));
	}
	int rc = hk_ctl_check(bytes, len, &m, &err);
	if (rc > 0) {
		CHECK(m.hdr.len == len && (int)m.hdr.type == rc);
		CHECK(strcmp(hk_ctl_type_name((unsigned)rc), "?") != 0);
		check_accepted(&m);
		CHECK(hk_ctl_check(&m, m.hdr.len, &again, &err) == rc);
	} else {
		CHECK(rc < 0 && err.text[0]);
	}
	free(bytes);
	return 0;
}
