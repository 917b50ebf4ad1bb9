/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_wires.c: wires between the daemons of two nodes (both here).
 */
#include "tests/unit/host/rig.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static struct hk_host *attach(const char *name, uint32_t rank)
{
	struct hk_host_request req = rig_request(0x77, rank, rank + 1);
	struct hk_error err = {""};
	struct hk_host *h;

	req.name = name;
	CHECK_MSG(hk_host_connect(&req, &h, &err) == 0, "%s", err.text);
	return h;
}

static struct hk_ctl_node node_of(struct hk_host *h)
{
	return (struct hk_ctl_node){.node_id = hk_host_lease(h)->node_id,
				    .slots = hk_host_lease(h)->slots,
				    .eager = hk_host_lease(h)->eager};
}

struct ask {
	struct hk_host *h;
	struct hk_ctl_node node[2];
	struct hk_ctl_wire wire[2];
	unsigned count;
	int rc;
	struct hk_error err;
};

static void *ask(void *arg)
{
	struct ask *a = arg;

	a->rc = hk_host_wires(a->h, a->node, a->count, a->wire, RIG_WAIT_MS, &a->err);
	return NULL;
}

static void up(void)
{
	rig_up();
	CHECK(rig_daemon("a", NULL, "--port", rig_port, "--slots", "2"));
	CHECK(rig_daemon("b", NULL, "--port", rig_port, "--slots", "3"));
	CHECK(rig_daemon("c", NULL, "--port", rig_port, "--slots", "1"));
}

static void down(void)
{
	rig_stop("a");
	rig_stop("b");
	rig_stop("c");
	rig_all_gone();
}

/* All ranks of all nodes ask at the same time; each pair of nodes gets one wire. */
static void everyone_at_once(void)
{
	static const char *const name[] = {"a", "b", "c", "a", "b"};
	static const unsigned home[] = {0, 1, 2, 0, 1};
	struct ask q[5] = {0};
	pthread_t t[5];
	unsigned slots[3] = {2, 3, 1};

	up();
	for (unsigned i = 0; i < 5; i++)
		q[i].h = attach(name[i], i);
	for (unsigned i = 0; i < 5; i++) {
		for (unsigned j = 0; j < 3; j++)
			if (j != home[i])
				q[i].node[q[i].count++] = node_of(q[j].h);
		CHECK(pthread_create(&t[i], NULL, ask, &q[i]) == 0);
	}
	for (unsigned i = 0; i < 5; i++) {
		pthread_join(t[i], NULL);
		CHECK_MSG(q[i].rc == 0, "%s", q[i].err.text);
		for (unsigned j = 0; j < 2; j++)
			CHECK_EQ(q[i].wire[j].queues, slots[home[i]] * q[i].node[j].slots);
		/* a second rank of a node finds the first one's wires */
		if (i >= 3)
			for (unsigned j = 0; j < 2; j++)
				CHECK_EQ(q[i].wire[j].port_id, q[home[i]].wire[j].port_id);
	}
	CHECK(strstr(rig_status("a"), "\"state\": \"up\"") != NULL);
	for (unsigned i = 0; i < 5; i++)
		hk_host_close(q[i].h);
	down();
}

static void refused(struct hk_host *h, const struct hk_ctl_node *node, unsigned count, unsigned ms,
		    int code, const char *says)
{
	struct hk_ctl_wire wire[4];
	struct hk_error err = {""};

	int rc = hk_host_wires(h, node, count, wire, ms, &err);
	CHECK_MSG(rc == code, "%d: %s", rc, err.text);
	CHECK_MSG(strstr(err.text, says), "%s", err.text);
	hk_host_close(h);
}

static void what_cannot_be(void)
{
	struct hk_ctl_node nowhere = {.node_id = UINT64_MAX, .slots = 1}, many[256], twice[2];

	up();
	/* nobody listens, and nobody connects: both name the node */
	refused(attach("c", 0), &nowhere, 1, 30, -ETIMEDOUT, "ffffffffffffffff is not up in time");
	rig_stop("c");
	CHECK(rig_daemon("c", NULL, "--port", rig_port, "--slots", "16"));
	nowhere.node_id = 1;
	refused(attach("c", 1), &nowhere, 1, 30, -ETIMEDOUT, "waits for the other to listen");
	struct hk_host *h = attach("c", 2);
	struct hk_ctl_node self = node_of(h);
	refused(h, &self, 1, 100, -EINVAL, "no wire to itself");
	h = attach("c", 3);
	struct hk_ctl_wire wire;
	struct hk_error err = {""};
	/* somebody waits for it already, and thinks of two slots */
	struct ask q = {.h = attach("c", 4), .node = {{.node_id = 2, .slots = 2}}, .count = 1};
	pthread_t t;
	CHECK(pthread_create(&t, NULL, ask, &q) == 0);
	rig_status_has("c", "0000000000000002");
	struct hk_ctl_node three = {.node_id = 2, .slots = 3};
	refused(h, &three, 1, 100, -EINVAL, "2 slots for one rank and 3 for another");
	twice[0] = twice[1] = nowhere;
	refused(attach("c", 5), twice, 2, 100, -EPROTO, "twice");
	h = attach("c", 6);
	CHECK_EQ(hk_host_wires(h, many, 256, &wire, 100, &err), -E2BIG);
	/* none is none */
	CHECK_EQ(hk_host_wires(h, many, 0, &wire, 100, &err), 0);
	hk_host_close(h);
	/* a daemon that ends tells those who wait */
	rig_stop("c");
	pthread_join(t, NULL);
	CHECK_EQ(q.rc, -ESHUTDOWN);
	CHECK_MSG(strstr(q.err.text, "asked for it"), "%s", q.err.text);
	hk_host_close(q.h);
	rig_stop("a");
	rig_stop("b");
	rig_all_gone();
}

/* Each mode has its queue pairs: those of hikyakud, those of each pair of slots. */
static void queues_of_each_mode(void)
{
	static const struct {
		const char *mode, *eager;
		unsigned queues;
	} way[] = {{"hybrid", "0", 6},
		   {"daemon", "0", 4},
		   {"daemon", "3", 3},
		   {"split", "0", 10},
		   {"split", "2", 8}};

	for (unsigned i = 0; i < HK_ARRAY_LEN(way); i++) {
		const char *mode = way[i].mode, *eager = way[i].eager;

		rig_up();
		CHECK(rig_daemon("a", NULL, "--port", rig_port, "--slots", "2", "--mode", mode,
				 "--eager-queues", eager));
		CHECK(rig_daemon("b", NULL, "--port", rig_port, "--slots", "3", "--mode", mode,
				 "--eager-queues", eager));
		struct hk_host *a = attach("a", 0), *b = attach("b", 1);
		struct ask q[2] = {{.h = a, .node = {node_of(b)}, .count = 1},
				   {.h = b, .node = {node_of(a)}, .count = 1}};
		pthread_t t;

		CHECK(pthread_create(&t, NULL, ask, &q[0]) == 0);
		ask(&q[1]);
		pthread_join(t, NULL);
		CHECK_MSG(q[0].rc == 0 && q[1].rc == 0, "%s%s", q[0].err.text, q[1].err.text);
		CHECK_EQ(q[0].wire[0].queues, way[i].queues);
		CHECK_EQ(q[1].wire[0].queues, way[i].queues);
		/* a node that has another number of them would wait for frames that never come */
		struct hk_host *other = attach("a", 2);
		struct hk_ctl_node wrong = node_of(b);

		wrong.eager++;
		refused(other, &wrong, 1, 100, -EINVAL, "give both the same eager-queues");
		hk_host_close(a);
		hk_host_close(b);
		rig_stop("a");
		rig_stop("b");
		rig_all_gone();
	}
}

/* A server end's socket goes with its daemon, however that ends. */
static void sockets_go(void)
{
	up();
	struct hk_host *a = attach("a", 0), *b = attach("b", 1);
	struct ask q[2] = {{.h = a, .node = {node_of(b)}, .count = 1},
			   {.h = b, .node = {node_of(a)}, .count = 1}};
	pthread_t t;
	CHECK(pthread_create(&t, NULL, ask, &q[0]) == 0);
	ask(&q[1]);
	pthread_join(t, NULL);
	CHECK_MSG(q[0].rc == 0 && q[1].rc == 0, "%s%s", q[0].err.text, q[1].err.text);
	kill(rig_daemon_pid("a"), SIGKILL);
	kill(rig_daemon_pid("b"), SIGKILL);
	hk_host_close(a);
	hk_host_close(b);
	rig_stop("c");
	rig_all_gone();
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"everyone_at_once", everyone_at_once},
		{"what_cannot_be", what_cannot_be},
		{"queues_of_each_mode", queues_of_each_mode},
		{"sockets_go", sockets_go},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}
