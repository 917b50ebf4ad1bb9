/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/node.c: hk_learn, a node of gossip learning on hikyaku/rtc.h (docs/learn.md).
 *
 * One core polls, runs a round of training, and polls again. Parameters have delivery class
 * HK_RTC_LATEST, because older ones are worthless. Every wait has a limit: timeout_ms for the other
 * nodes at the start, max_seconds for training, SETTLE_SECONDS for the last messages.
 */
#include "learn/options.h"
#include "learn/report.h"
#include "learn/shard.h"
#include "rtc/peers.h"
#include "rtc/topology.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SETTLE_SECONDS 5
#define PAUSE          (200 * HK_USEC)    /* pause between rounds without training */
#define POLLS          4                  /* most bursts between two rounds */
#define FULL_BURST     (HK_RTC_BURST / 2) /* after a burst of this size, poll again */
#define CHECK_ROUNDS   64                 /* rounds between readings of the clock */
#define JUDGED         (500 * HK_MSEC)    /* interval of lines about false parameters */

/* Counts of what a peer sent. */
struct judged {
	uint64_t taken, false_ones; /* slices accepted; slices refused as not finite or too far */
	uint64_t told;              /* the sum of both in the last line about it */
	uint16_t reported;          /* bit set of reported reasons */
};

struct node {
	struct hk_learn_options o;
	struct hk_learn_shard shard;
	struct hk_rtc *rtc;
	struct hk_learn_gossip *gossip;
	struct hk_learn_report report;
	struct judged *judged; /* [nodes] */
	uint64_t next_report, next_judged, deadline, last, next_round;
	uint64_t left; /* members that had told that they leave, when on_member() ran last */
};

static volatile sig_atomic_t stop_requested;

static void on_signal(int sig)
{
	(void)sig;
	if (stop_requested)
		_exit(130);
	stop_requested = 1;
}

/* ---- callbacks of gossip.c and rtc ----------------------------------------------------------- */

static unsigned net_neighbours(void *arg, const uint16_t **list)
{
	unsigned n;

	*list = hk_rtc_neighbours(((struct node *)arg)->rtc, &n);
	return n;
}

static int net_pick(void *arg)
{
	return hk_rtc_pick(((struct node *)arg)->rtc);
}

static bool net_alive(void *arg, uint16_t node)
{
	return hk_rtc_is_member(((struct node *)arg)->rtc, node);
}

static void net_send(void *arg, uint16_t dst, uint8_t type, const void *data, size_t len)
{
	/* rtc counts messages that it cannot send; the next one replaces them */
	(void)hk_rtc_send(((struct node *)arg)->rtc, dst, type, data, len, NULL);
}

static void on_message(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	struct node *node = arg;

	(void)rtc;
	for (unsigned i = 0; i < n; i++) {
		enum hk_learn_reason why = hk_learn_gossip_message(
			node->gossip, msg[i].src, msg[i].type, msg[i].data, msg[i].len);
		struct judged *judged = &node->judged[msg[i].src];
		uint16_t bit = (uint16_t)(1u << why);
		judged->taken += why == HK_LEARN_TAKEN && msg[i].type != HK_LEARN_T_STATUS;
		judged->false_ones += why == HK_LEARN_R_FAR || why == HK_LEARN_R_NOT_FINITE;
		if (why == HK_LEARN_TAKEN || (judged->reported & bit))
			continue;
		judged->reported |= bit;
		hk_learn_report_begin(&node->report, "refused");
		fprintf(node->report.out, ", \"peer\": %u, \"why\": \"%s\"", msg[i].src,
			hk_learn_reason_name(why));
		hk_learn_report_end(&node->report);
	}
}

static void on_member(struct hk_rtc *rtc, void *arg, uint16_t peer, bool joined)
{
	struct node *node = arg;
	struct hk_rtc_stats stats;

	hk_rtc_stats(rtc, &stats); /* counts a leave message before the call */
	bool left = !joined && stats.left != node->left;
	node->left = stats.left;
	if (!node->gossip)
		return; /* opening or closing */
	if (!joined)
		hk_learn_gossip_peer_left(node->gossip, peer);
	hk_learn_report_begin(&node->report, "member");
	fprintf(node->report.out, ", \"peer\": %u, \"joined\": %s, \"left\": %s", peer,
		joined ? "true" : "false", left ? "true" : "false");
	hk_learn_report_end(&node->report);
}

/* ---- start ----------------------------------------------------------------------------------- */

static int read_shard(struct node *n, struct hk_error *err)
{
	uint16_t id = hk_rtc_node(n->rtc), nodes = hk_rtc_nodes(n->rtc);
	char path[4096];
	int rc = hk_learn_path(n->o.shard, id, path, sizeof(path), err);

	if (rc == 0)
		rc = hk_learn_shard_read(&n->shard, path, err);
	if (rc != 0)
		return rc;
	if (n->shard.node != id || n->shard.nodes != nodes)
		return hk_error_set(err, -EINVAL,
				    "%s is for node %u of %u, and this is node %u of %u; fix: "
				    "start as many nodes as there are shards",
				    path, n->shard.node, n->shard.nodes, id, nodes);
	n->o.model.features = n->shard.features;
	n->o.model.classes = n->shard.classes;
	return hk_learn_check(&n->o.model, err);
}

static int open_log(struct node *n, struct hk_error *err)
{
	char path[4096];
	int rc;

	n->report.node = hk_rtc_node(n->rtc);
	n->report.rtc = n->rtc;
	n->report.out = stdout;
	if (!n->o.log)
		return 0;
	rc = hk_learn_path(n->o.log, n->report.node, path, sizeof(path), err);
	if (rc != 0)
		return rc;
	/* append: a node that restarts continues its file */
	n->report.out = fopen(path, "ae");
	if (!n->report.out) {
		n->report.out = stdout;
		return hk_error_set(
			err, -errno,
			"%s cannot be written: %s; fix: name a file in a writable directory", path,
			strerror(errno));
	}
	return 0;
}

/* Number of this incarnation: the time in 1/100 s, never 0. */
static uint32_t new_run(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	uint32_t run = (uint32_t)((uint64_t)ts.tv_sec * 100 + (uint64_t)ts.tv_nsec / 10000000);
	return run ? run : 1;
}

/* Counts this node's neighbours for the case that all nodes are there. */
static int count_neighbours(const struct node *n, struct hk_learn_gossip_config *cfg,
			    struct hk_error *err)
{
	struct hk_rtc_config rtc = n->o.rtc;
	struct hk_rtc_topology_view topology;
	uint16_t *all = calloc(cfg->nodes, sizeof(*all));
	int rc;

	if (!all)
		return hk_error_set(err, -ENOMEM, "no memory");
	memset(all, 1, cfg->nodes * sizeof(*all));
	rtc.node = cfg->node;
	rtc.nodes = cfg->nodes;
	rc = hk_rtc_topology_init(&topology, &rtc, err);
	if (rc == 0) {
		hk_rtc_topology_update(&topology, all);
		cfg->neighbours = topology.count;
		/* a file may name more nodes than those that send to this one */
		if (rtc.topology == HK_RTC_FILE)
			cfg->neighbours = HK_MIN(cfg->neighbours, 3u);
		hk_rtc_topology_free(&topology);
	}
	free(all);
	return rc;
}

static int open_gossip(struct node *n, struct hk_error *err)
{
	struct hk_learn_gossip_config cfg = {
		.model = &n->o.model,
		.set = &n->o.set,
		.data = n->shard.data,
		.node = hk_rtc_node(n->rtc),
		.nodes = hk_rtc_nodes(n->rtc),
		.run = new_run(),
		.payload_max = hk_rtc_payload_max(n->rtc),
		.net = {n, net_neighbours, net_pick, net_alive, net_send},
	};
	int rc = count_neighbours(n, &cfg, err);

	if (rc == 0)
		rc = hk_learn_fault(n->o.fault, cfg.node, &cfg.fault, &cfg.fault_scale, err);
	if (rc == 0)
		rc = hk_learn_gossip_open(&cfg, &n->gossip, err);
	for (unsigned t = 0; rc == 0 && t <= n->gossip->slices; t++) {
		struct hk_rtc_type type = {.name = t == HK_LEARN_T_STATUS ? "status" : "slice",
					   .class = HK_RTC_LATEST,
					   .on_message = on_message,
					   .arg = n};
		rc = hk_rtc_register(n->rtc, (uint8_t)t, &type, err);
	}
	n->judged = rc == 0 ? calloc(cfg.nodes, sizeof(*n->judged)) : NULL;
	if (rc == 0 && !n->judged)
		rc = hk_error_set(err, -ENOMEM, "no memory");
	return rc;
}

#define NAMED 8 /* absent nodes that a line names; it counts the others */

/* Tells the user which nodes are absent, with their lines in the file of addresses. */
static void warn_absent(const struct node *n, const uint16_t *absent, unsigned count)
{
	struct hk_rtc_peers peers = {0};

	if (hk_rtc_peers_read(&n->o.rtc, &peers, NULL) != 0)
		return; /* hk_rtc_open() has read it, and it is gone now */
	fprintf(stderr,
		"hk_learn: node %u trains without %u of %u nodes, which have not answered "
		"for %u ms: ",
		hk_rtc_node(n->rtc), count, peers.nodes, n->o.rtc.timeout_ms);
	for (unsigned i = 0; i < HK_MIN(count, (unsigned)NAMED); i++)
		fprintf(stderr, "%s%u (%s)", i ? ", " : "", absent[i], peers.address[absent[i]]);
	fprintf(stderr, "%s; fix: start them as well, with the same --peers, --key and --secret\n",
		count > NAMED ? ", …" : "");
	hk_rtc_peers_free(&peers);
}

/* Waits for the other nodes. Without a launcher nodes become members one by one; a node that is
 * missing after timeout_ms may come later, and then catches up. */
static void wait_for_others(struct node *n)
{
	uint64_t until = hk_rtc_now(n->rtc) + n->o.rtc.timeout_ms * HK_MSEC;
	uint16_t nodes = hk_rtc_nodes(n->rtc), absent[HK_RTC_MAX_NODES];
	unsigned count = 0;

	while (hk_rtc_members(n->rtc) < nodes && hk_rtc_now(n->rtc) < until && !stop_requested)
		if (hk_rtc_poll(n->rtc) == 0)
			sched_yield();
	if (hk_rtc_members(n->rtc) == nodes)
		return;
	hk_learn_report_begin(&n->report, "absent");
	fputs(", \"nodes\": [", n->report.out);
	for (uint16_t i = 0; i < nodes; i++) {
		if (i == hk_rtc_node(n->rtc) || hk_rtc_is_member(n->rtc, i))
			continue;
		fprintf(n->report.out, "%s%u", count ? ", " : "", i);
		absent[count++] = i;
	}
	fputs("]", n->report.out);
	hk_learn_report_end(&n->report);
	if (!stop_requested)
		warn_absent(n, absent, count);
}

static void report_start(struct node *n)
{
	const struct hk_learn_gossip *g = n->gossip;
	const char *backend = n->o.rtc.backend ? n->o.rtc.backend : getenv("HIKYAKU_RTC_BACKEND");

	backend = backend && !strpbrk(backend, "\"\\\n") ? backend : "?";
	hk_learn_report_begin(&n->report, "start");
	fprintf(n->report.out,
		", \"nodes\": %u, \"rows\": %zu, \"features\": %u, \"classes\": %u, "
		"\"parameters\": %zu, \"slices\": %u, \"payload\": %zu, \"backend\": \"%s\", "
		"\"protection\": \"%s\", \"address\": \"%s\"",
		g->nodes, g->data.rows, g->model->features, g->model->classes, g->parameters,
		g->slices, hk_rtc_payload_max(n->rtc), backend,
		hk_learn_protection_name[hk_rtc_protection(n->rtc)], hk_rtc_address(n->rtc));
	hk_learn_report_end(&n->report);
}

/* ---- training -------------------------------------------------------------------------------- */

/* A line for each peer that sent false parameters, unless nothing new came; @all: in any case. The
 * user's program asks all nodes, since a node that is wrong itself refuses everybody. */
static void report_judged(struct node *n, bool all)
{
	for (unsigned i = 0; i < n->gossip->nodes; i++) {
		struct judged *j = &n->judged[i];
		uint64_t came = j->taken + j->false_ones;
		if (!j->false_ones || (came == j->told && !all))
			continue;
		j->told = came;
		hk_learn_report_begin(&n->report, "judged");
		fprintf(n->report.out,
			", \"peer\": %u, \"taken\": %" PRIu64 ", \"false\": %" PRIu64, i, j->taken,
			j->false_ones);
		hk_learn_report_end(&n->report);
	}
}

/* Reports and checks limits. False: the last messages have taken too long. */
static bool check_time(struct node *n)
{
	uint64_t now = hk_rtc_now(n->rtc);

	if (now >= n->next_report) {
		hk_learn_report_progress(&n->report, "progress", n->gossip, n->rtc);
		/* report often at first, so that a curve has about as many points on a logarithmic
		 * scale */
		uint64_t most = (uint64_t)(n->o.report_seconds * (double)HK_SEC);
		n->next_report = now +
				 HK_MIN(most, HK_MAX(2 * HK_MSEC, (now - n->report.began) / 32));
	}
	if (now >= n->next_judged) {
		report_judged(n, false);
		n->next_judged = now + JUDGED;
	}
	if (now >= n->deadline)
		hk_learn_gossip_stop(n->gossip, HK_LEARN_STOP_TIME);
	if (stop_requested)
		hk_learn_gossip_stop(n->gossip, HK_LEARN_STOP_ASKED);
	if (n->gossip->agree.stop != HK_LEARN_GO && n->last == UINT64_MAX) {
		n->report.stopped = now;
		n->last = now + SETTLE_SECONDS * HK_SEC;
	}
	return now < n->last;
}

/* Names a member that was told the end for SETTLE_SECONDS, and did not confirm it. */
static void warn_unaware(const struct node *n)
{
	int peer = hk_learn_gossip_unaware(n->gossip);

	if (n->gossip->state != HK_LEARN_GOSSIP_DONE && peer >= 0)
		fprintf(stderr,
			"hk_learn: node %u ends, but node %d has not confirmed within %d s that "
			"training ends; fix: stop it, or let it train until its --max-seconds\n",
			hk_rtc_node(n->rtc), peer, SETTLE_SECONDS);
}

static void train(struct node *n)
{
	bool going = true;

	n->report.began = hk_rtc_now(n->rtc);
	n->deadline = n->report.began + (uint64_t)(n->o.max_seconds * (double)HK_SEC);
	n->last = UINT64_MAX;
	for (uint64_t round = 0; going; round++) {
		for (unsigned i = 0; i < POLLS && hk_rtc_poll(n->rtc) >= FULL_BURST; i++)
			;
		if (n->gossip->state == HK_LEARN_GOSSIP_TRAINING) {
			going = hk_learn_gossip_round(n->gossip);
		} else if (hk_rtc_now(n->rtc) >= n->next_round) {
			n->next_round = hk_rtc_now(n->rtc) + PAUSE;
			going = hk_learn_gossip_round(n->gossip);
		} else {
			sched_yield();
		}
		if (n->o.yield)
			sched_yield();
		if (round % CHECK_ROUNDS == 0 || n->gossip->state != HK_LEARN_GOSSIP_TRAINING)
			going = check_time(n) && going;
	}
	warn_unaware(n);
	hk_rtc_flush(n->rtc);
	report_judged(n, true);
	hk_learn_report_progress(&n->report, "end", n->gossip, n->rtc);
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Writes "HKPARAM1", number of parameters, age, loss, and the parameters as float64. The file
 * appears complete or not at all. */
static int write_parameters(const struct node *n, struct hk_error *err)
{
	const struct hk_learn_gossip *g = n->gossip;
	const uint64_t count[2] = {g->parameters, g->slice[0].age};
	char path[4096], part[4100];
	FILE *f;
	int rc;

	if (!n->o.output)
		return 0;
	rc = hk_learn_path(n->o.output, g->node, path, sizeof(path), err);
	if (rc != 0)
		return rc;
	snprintf(part, sizeof(part), "%s.new", path);
	f = fopen(part, "wbe");
	bool good = f && fwrite("HKPARAM1", 8, 1, f) == 1 &&
		    fwrite(count, sizeof(count), 1, f) == 1 &&
		    fwrite(&g->stats.loss, sizeof(double), 1, f) == 1 &&
		    fwrite(g->train.w, sizeof(double), g->parameters, f) == g->parameters;
	int why = errno;
	if (f && fclose(f) != 0 && good) {
		good = false;
		why = errno;
	}
	if (good && rename(part, path) == 0)
		return 0;
	why = good ? errno : why;
	unlink(part);
	return hk_error_set(err, -why,
			    "%s cannot be written: %s; fix: name a file in a writable directory",
			    path, strerror(why));
}

static int run(struct node *n, struct hk_error *err)
{
	int rc;

	n->o.rtc.on_member = on_member;
	n->o.rtc.arg = n;
	rc = hk_rtc_open(&n->o.rtc, &n->rtc, err);
	if (rc == 0)
		rc = open_log(n, err);
	if (rc == 0)
		rc = read_shard(n, err);
	if (rc == 0)
		rc = open_gossip(n, err);
	if (rc == 0) {
		report_start(n);
		wait_for_others(n);
		train(n);
		rc = write_parameters(n, err);
	}
	hk_learn_gossip_close(n->gossip);
	n->gossip = NULL;
	hk_rtc_close(n->rtc);
	hk_learn_shard_free(&n->shard);
	free(n->judged);
	if (n->report.out && n->report.out != stdout)
		fclose(n->report.out);
	return rc;
}

int main(int argc, char **argv)
{
	static struct node node;
	struct sigaction stop = {.sa_handler = on_signal};
	struct hk_error err = {""};

	if (hk_learn_options(argc, argv, &node.o, &err) != 0) {
		fprintf(stderr, "hk_learn: %s\n", err.text);
		return 2;
	}
	if (node.o.help) {
		hk_learn_usage();
		return 0;
	}
	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	if (run(&node, &err) != 0) {
		fprintf(stderr, "hk_learn: %s\n", err.text);
		return 1;
	}
	return 0;
}
