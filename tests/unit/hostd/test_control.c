/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_control.c: every valid message passes, and an error names each rule that a
 * message breaks. For random changes it runs tests/fuzz/fuzz_control.c with a seed.
 */
#include "hostd/control.h"
#include "tests/support/hk_test.h"
#include "tests/support/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void specimen(enum hk_ctl_type type, union hk_ctl_msg *m)
{
	hk_ctl_init(m, type, 7, type == HK_CTL_WIRES || type == HK_CTL_WIRES_READY ? 2 : 0);
	switch (type) {
	case HK_CTL_HELLO:
		m->hello.job_key = 5;
		m->hello.local_ranks = 2;
		m->hello.pid = 100;
		hk_ctl_set_text(m->hello.release, sizeof(m->hello.release), "1.2.3");
		hk_ctl_set_text(m->hello.host, sizeof(m->hello.host), "node0");
		break;
	case HK_CTL_WELCOME:
		m->welcome.node_id = 9;
		m->welcome.slots = 4;
		m->welcome.slot = 3;
		m->welcome.generation = 1;
		m->welcome.frame_max = 1518;
		m->welcome.memory = 1 << 21;
		m->welcome.memory_len = 1 << 20;
		m->welcome.port_kind = HK_CTL_PORT_WIRES;
		m->welcome.mode = HK_CTL_HYBRID;
		hk_ctl_set_text(m->welcome.shared, sizeof(m->welcome.shared), "hk0-x");
		hk_ctl_set_text(m->welcome.runtime_dir, sizeof(m->welcome.runtime_dir), "/run");
		hk_ctl_set_text(m->welcome.rx_pool, sizeof(m->welcome.rx_pool), "rx3");
		hk_ctl_set_text(m->welcome.tx_pool, sizeof(m->welcome.tx_pool), "tx3");
		hk_ctl_set_text(m->welcome.host, sizeof(m->welcome.host), "node0");
		break;
	case HK_CTL_ERROR:
		hk_ctl_init_error(m, 7, -ENOENT, "there is none; fix: make one");
		break;
	case HK_CTL_WIRES:
		m->wires.timeout_ms = 100;
		m->wires.node[0] = (struct hk_ctl_node){.node_id = 1, .slots = 1};
		m->wires.node[1] = (struct hk_ctl_node){.node_id = 2, .slots = 64};
		break;
	case HK_CTL_WIRES_READY:
		m->wires_ready.wire[0] = (struct hk_ctl_wire){.node_id = 1, .queues = 1};
		m->wires_ready.wire[1] = (struct hk_ctl_wire){.node_id = 2, .queues = 4096};
		break;
	case HK_CTL_READY:
		m->ready.worker = 1 << 20;
		break;
	case HK_CTL_TEXT:
		m->text.bytes = HK_CTL_TEXT_MAX;
		break;
	default:
		break;
	}
}

TEST(good_ones)
{
	union hk_ctl_msg m, out;

	for (unsigned t = HK_CTL_HELLO; t < HK_CTL_TYPES; t++) {
		specimen(t, &m);
		CHECK_MSG(hk_ctl_check(&m, m.hdr.len, &out, ERR) == (int)t, "%s: %s",
			  hk_ctl_type_name(t), hk_test_err.text);
		CHECK(memcmp(&m, &out, sizeof(m)) == 0);
	}
}

static void wrong(const union hk_ctl_msg *m, size_t len, int code, const char *says)
{
	union hk_ctl_msg out;

	int rc = hk_ctl_check(m, len, &out, ERR);
	CHECK_MSG(rc == code, "%s %s: %d", hk_ctl_type_name(m->hdr.type), says, rc);
	CHECK_HAS(hk_test_err.text, says);
}

#define BREAK(type, field, value, says)                                                            \
	do {                                                                                       \
		union hk_ctl_msg m_;                                                               \
		specimen(type, &m_);                                                               \
		m_.field = value;                                                                  \
		wrong(&m_, m_.hdr.len, -EPROTO, says);                                             \
	} while (0)

TEST(every_rule)
{
	BREAK(HK_CTL_HELLO, hello.job_key, 0, "job_key");
	BREAK(HK_CTL_HELLO, hello.local_ranks, 0, "local_ranks");
	BREAK(HK_CTL_HELLO, hello.local_rank, 2, "local_rank");
	BREAK(HK_CTL_HELLO, hello.pid, 0, "pid");
	BREAK(HK_CTL_HELLO, hello.pid, UINT32_MAX, "pid");
	BREAK(HK_CTL_HELLO, hello.zero, 1, "zero");
	BREAK(HK_CTL_HELLO, hello.release[0], '\0', "release");
	BREAK(HK_CTL_HELLO, hello.release[1], '"', "release");
	BREAK(HK_CTL_HELLO, hello.release[31], 'x', "release");
	BREAK(HK_CTL_HELLO, hello.host[2], '\n', "host");
	BREAK(HK_CTL_WELCOME, welcome.node_id, 0, "node_id");
	BREAK(HK_CTL_WELCOME, welcome.slots, 65, "slots");
	BREAK(HK_CTL_WELCOME, welcome.slot, 4, "slot");
	BREAK(HK_CTL_WELCOME, welcome.generation, 0, "generation");
	BREAK(HK_CTL_WELCOME, welcome.frame_max, 63, "frame_max");
	BREAK(HK_CTL_WELCOME, welcome.frame_max, 65536, "frame_max");
	BREAK(HK_CTL_WELCOME, welcome.link_mbps, HK_LINK_MBPS_MAX + 1, "link_mbps");
	BREAK(HK_CTL_WELCOME, welcome.classes, 2, "classes");
	BREAK(HK_CTL_WELCOME, welcome.zero[2], 1, "zero");
	BREAK(HK_CTL_WELCOME, welcome.port_kind, 0, "port_kind");
	BREAK(HK_CTL_WELCOME, welcome.poller, 2, "poller");
	BREAK(HK_CTL_WELCOME, welcome.mode, 0, "mode");
	BREAK(HK_CTL_WELCOME, welcome.mode, HK_CTL_MODES, "mode");
	BREAK(HK_CTL_WELCOME, welcome.mode, HK_CTL_DAEMON, "eager");
	BREAK(HK_CTL_WELCOME, welcome.eager, 1, "eager");
	BREAK(HK_CTL_WELCOME, welcome.eager, 65, "eager");
	BREAK(HK_CTL_WELCOME, welcome.shared[0], '\0', "shared");
	BREAK(HK_CTL_WELCOME, welcome.huge_dir[0], '\\', "huge_dir");
	BREAK(HK_CTL_WELCOME, welcome.runtime_dir[0], '\0', "runtime_dir");
	BREAK(HK_CTL_WELCOME, welcome.rx_pool[0], '\0', "rx_pool");
	BREAK(HK_CTL_WELCOME, welcome.tx_pool[31], 'x', "tx_pool");
	BREAK(HK_CTL_WELCOME, welcome.memory, 0, "memory");
	BREAK(HK_CTL_WELCOME, welcome.memory, 1, "memory");
	BREAK(HK_CTL_WELCOME, welcome.memory_len, 0, "memory_len");
	BREAK(HK_CTL_WELCOME, welcome.memory_len, UINT64_MAX, "memory_len");
	BREAK(HK_CTL_WELCOME, welcome.pipes, 32, "pipes");
	BREAK(HK_CTL_WELCOME, welcome.pipes, 64, "pipes");
	BREAK(HK_CTL_WELCOME, welcome.port_kind, HK_CTL_PORT_ONE, "port_kind");
	BREAK(HK_CTL_ERROR, error.code, 0, "code");
	BREAK(HK_CTL_ERROR, error.code, -4096, "code");
	BREAK(HK_CTL_ERROR, error.text[0], '\0', "text");
	BREAK(HK_CTL_ERROR, error.zero, 1, "zero");
	BREAK(HK_CTL_WIRES, wires.count, 256, "count");
	BREAK(HK_CTL_WIRES, wires.count, 1, "bytes");
	BREAK(HK_CTL_WIRES, wires.timeout_ms, 0, "timeout_ms");
	BREAK(HK_CTL_WIRES, wires.node[1].node_id, 0, "node_id");
	BREAK(HK_CTL_WIRES, wires.node[1].node_id, 1, "node_id (twice)");
	BREAK(HK_CTL_WIRES, wires.node[0].slots, 65, "slots");
	BREAK(HK_CTL_WIRES, wires.node[0].eager, 65, "eager");
	BREAK(HK_CTL_WIRES_READY, wires_ready.wire[1].node_id, 0, "node_id");
	BREAK(HK_CTL_WIRES_READY, wires_ready.wire[1].queues, 0, "queues");
	BREAK(HK_CTL_WIRES_READY, wires_ready.wire[1].queues, 4161, "queues");
	BREAK(HK_CTL_WIRES_READY, wires_ready.wire[0].pipe, 255, "pipe");
	BREAK(HK_CTL_READY, ready.worker, 0, "worker");
	BREAK(HK_CTL_READY, ready.worker, 65, "worker");
	BREAK(HK_CTL_TEXT, text.bytes, HK_CTL_TEXT_MAX + 1, "bytes");
	BREAK(HK_CTL_TEXT, text.more, 2, "more");
	for (unsigned t = HK_CTL_HELLO; t < HK_CTL_TYPES; t++) {
		union hk_ctl_msg m;
		specimen(t, &m);
		wrong(&m, m.hdr.len - 1, -EPROTO, "bytes");
		wrong(&m, m.hdr.len + 1, -EPROTO, "bytes");
		m.hdr.len++;
		wrong(&m, m.hdr.len, -EPROTO, "bytes");
		BREAK(t, hdr.magic, 1, "not Hikyaku's");
		specimen(t, &m);
		m.hdr.version++;
		if (t != HK_CTL_ERROR) /* every version understands ERROR */
			wrong(&m, m.hdr.len, -EPROTONOSUPPORT, "version 2");
	}
	BREAK(HK_CTL_STOP, hdr.type, 0, "unknown type");
	BREAK(HK_CTL_STOP, hdr.type, HK_CTL_TYPES, "unknown type");
}

/* Valid messages with some bytes changed, cut or appended; and random bytes. */
TEST(fuzz)
{
	static uint8_t in[1 + sizeof(union hk_ctl_msg) + 64];

	for (unsigned i = 0; i < 300000; i++) {
		union hk_ctl_msg m;
		struct hk_rng *r = &hk_test_rng;
		unsigned t = (unsigned)hk_rng_range(r, HK_CTL_HELLO, HK_CTL_TYPES - 1);
		specimen(t, &m);
		size_t len = m.hdr.len;
		memset(in, 0, sizeof(in));
		memcpy(in + 1, &m, len);
		if (hk_rng_chance(r, 300000))
			len = hk_rng_below(r, sizeof(in) - 1);
		for (uint64_t n = hk_rng_below(r, 6); n; n--)
			in[1 + hk_rng_below(r, len + 1)] = (uint8_t)(hk_rng_chance(r, 500000)
									     ? hk_rng_below(r, 3)
									     : hk_rng_next(r));
		in[0] = (uint8_t)(hk_rng_chance(r, 500000) ? 1 | t << 1 : 0);
		LLVMFuzzerTestOneInput(in, 1 + len);
	}
}

TEST(sockets)
{
	union hk_ctl_msg m;
	int sv[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv) == 0);
	CHECK_EQ(hk_ctl_recv(sv[0], &m, hk_clock_ms() + 5, ERR), -ETIMEDOUT);
	specimen(HK_CTL_WIRES, &m);
	CHECK_EQ(hk_ctl_send(sv[1], &m, 0), 0);
	CHECK_EQ(hk_ctl_recv(sv[0], &m, 0, ERR), HK_CTL_WIRES);
	CHECK_EQ(m.wires.node[1].slots, 64);
	/* longer than any message */
	char big[8192] = "";
	CHECK(send(sv[1], big, sizeof(big), 0) == sizeof(big));
	CHECK_EQ(hk_ctl_recv(sv[0], &m, 0, ERR), -EPROTO);
	/* a descriptor that comes with a message is closed */
	hk_ctl_init(&m, HK_CTL_STATUS, 1, 0);
	int free_fd = dup(0);
	close(free_fd);
	CHECK(send_with(sv[1], &m, sizeof(struct hk_ctl_hdr), sv[0], 0) > 0);
	CHECK_EQ(hk_ctl_recv(sv[0], &m, 0, ERR), HK_CTL_STATUS);
	CHECK_EQ(fcntl(free_fd, F_GETFD), -1);
	/* the other end does not read */
	specimen(HK_CTL_TEXT, &m);
	int rc, n = 0;
	while ((rc = hk_ctl_send(sv[1], &m, hk_clock_ms() + 5)) == 0)
		CHECK(++n < 10000);
	CHECK_EQ(rc, -ETIMEDOUT);
	close(sv[0]);
	CHECK_EQ(hk_ctl_send(sv[1], &m, 0), -EPIPE);
	CHECK_OK(hk_ctl_recv(sv[1], &m, 0, ERR));
	close(sv[1]);
}
