/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_wires.c: wires between daemons of several nodes, all on this machine.
 */
#include "tests/unit/hostd/rig.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static struct hk_hostd_client *attach(const char *name, uint32_t rank)
{
	struct hk_hostd_request req = rig_request(0x77, rank, rank + 1);

	req.name = name;
	return rig_connect_as(&req);
}

static struct hk_ctl_node node_of(struct hk_hostd_client *h)
{
	return (struct hk_ctl_node){.node_id = hk_hostd_client_lease(h)->node_id,
				    .slots = hk_hostd_client_lease(h)->slots,
				    .eager = hk_hostd_client_lease(h)->eager};
}

struct ask {
	struct hk_hostd_client *h;
	struct hk_ctl_node node[2];
	struct hk_ctl_wire wire[2];
	unsigned count;
	int rc;
	struct hk_error err;
};

static void *ask(void *arg)
{
	struct ask *a = arg;

	a->rc = hk_hostd_client_wires(a->h, a->node, a->count, a->wire, RIG_WAIT_MS, &a->err);
	return NULL;
}

/* The first rank of each of two nodes asks for the wire between them. */
static void both_ask(struct ask q[2], struct hk_hostd_client *a, struct hk_hostd_client *b)
{
	pthread_t t;

	q[0] = (struct ask){.h = a, .node = {node_of(b)}, .count = 1};
	q[1] = (struct ask){.h = b, .node = {node_of(a)}, .count = 1};
	CHECK(pthread_create(&t, NULL, ask, &q[0]) == 0);
	ask(&q[1]);
	pthread_join(t, NULL);
	CHECK_MSG(q[0].rc == 0 && q[1].rc == 0, "%s%s", q[0].err.text, q[1].err.text);
}

static void up(void)
{
	CHECK(rig_daemon("a", NULL, "--port", rig_port, "--slots", "2"));
	CHECK(rig_daemon("b", NULL, "--port", rig_port, "--slots", "3"));
	CHECK(rig_daemon("c", NULL, "--port", rig_port, "--slots", "1"));
}

static void down(void)
{
	rig_stop("a");
	rig_stop("b");
	rig_stop("c");
}

/* All ranks of all nodes ask at once: each pair of nodes gets one wire. */
TEST(everyone_at_once)
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
		/* the second rank of a node gets the wires of the first one */
		if (i >= 3)
			for (unsigned j = 0; j < 2; j++)
				CHECK_EQ(q[i].wire[j].port_id, q[home[i]].wire[j].port_id);
	}
	CHECK(strstr(rig_status("a"), "\"state\": \"up\"") != NULL);
	for (unsigned i = 0; i < 5; i++)
		hk_hostd_client_close(q[i].h);
	down();
}

static void refused(struct hk_hostd_client *h, const struct hk_ctl_node *node, unsigned count,
		    unsigned ms, int code, const char *says)
{
	struct hk_ctl_wire wire[4];

	CHECK_REFUSED(hk_hostd_client_wires(h, node, count, wire, ms, ERR), code, says);
	hk_hostd_client_close(h);
}

TEST(what_cannot_be)
{
	struct hk_ctl_node nowhere = {.node_id = UINT64_MAX, .slots = 1}, many[256], twice[2];

	up();
	/* without the other daemon: once this end listens, once it connects; the error names the
	 * node */
	refused(attach("c", 0), &nowhere, 1, 30, -ETIMEDOUT, "ffffffffffffffff is not up in time");
	rig_stop("c");
	CHECK(rig_daemon("c", NULL, "--port", rig_port, "--slots", "16"));
	nowhere.node_id = 1;
	refused(attach("c", 1), &nowhere, 1, 30, -ETIMEDOUT, "waits for the other to listen");
	struct hk_hostd_client *h = attach("c", 2);
	struct hk_ctl_node self = node_of(h);
	refused(h, &self, 1, 100, -EINVAL, "no wire to itself");
	h = attach("c", 3);
	struct hk_ctl_wire wire;
	/* another rank waits for that node already, with two slots */
	struct ask q = {.h = attach("c", 4), .node = {{.node_id = 2, .slots = 2}}, .count = 1};
	pthread_t t;
	CHECK(pthread_create(&t, NULL, ask, &q) == 0);
	rig_status_has("c", "0000000000000002");
	struct hk_ctl_node three = {.node_id = 2, .slots = 3};
	refused(h, &three, 1, 100, -EINVAL, "2 slots for one rank and 3 for another");
	twice[0] = twice[1] = nowhere;
	refused(attach("c", 5), twice, 2, 100, -EPROTO, "twice");
	h = attach("c", 6);
	CHECK_EQ(hk_hostd_client_wires(h, many, 256, &wire, 100, ERR), -E2BIG);
	/* a request without nodes succeeds */
	CHECK_OK(hk_hostd_client_wires(h, many, 0, &wire, 100, ERR));
	hk_hostd_client_close(h);
	/* a daemon that ends answers the requests that wait */
	rig_stop("c");
	pthread_join(t, NULL);
	CHECK_EQ(q.rc, -ESHUTDOWN);
	CHECK_HAS(q.err.text, "asked for it");
	hk_hostd_client_close(q.h);
	rig_stop("a");
	rig_stop("b");
}

/* The mode decides on the queue pairs: eager queues, one for each pair of slots, or both. */
TEST(queues_of_each_mode)
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

		CHECK(rig_daemon("a", NULL, "--port", rig_port, "--slots", "2", "--mode", mode,
				 "--eager-queues", eager));
		CHECK(rig_daemon("b", NULL, "--port", rig_port, "--slots", "3", "--mode", mode,
				 "--eager-queues", eager));
		struct hk_hostd_client *a = attach("a", 0), *b = attach("b", 1);
		struct ask q[2];

		both_ask(q, a, b);
		CHECK_EQ(q[0].wire[0].queues, way[i].queues);
		CHECK_EQ(q[1].wire[0].queues, way[i].queues);
		/* with another number, a node would wait for frames that never come */
		struct hk_hostd_client *other = attach("a", 2);
		struct hk_ctl_node wrong = node_of(b);

		wrong.eager++;
		refused(other, &wrong, 1, 100, -EINVAL, "give both the same eager-queues");
		hk_hostd_client_close(a);
		hk_hostd_client_close(b);
		rig_stop("a");
		rig_stop("b");
		rig_all_gone();
	}
}

/* The socket of a listening end is removed when its daemon is killed. */
TEST(sockets_go)
{
	up();
	struct hk_hostd_client *a = attach("a", 0), *b = attach("b", 1);
	struct ask q[2];

	both_ask(q, a, b);
	kill(rig_daemon_pid("a"), SIGKILL);
	kill(rig_daemon_pid("b"), SIGKILL);
	hk_hostd_client_close(a);
	hk_hostd_client_close(b);
	rig_stop("c");
}
