/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/switch_commands.c: commands of hikyakud's main thread to the switch, one at a time; its
 * counters.
 */
#include "hostd/switch_parts.h"
#include "port/wakeup.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_launch.h>

#define TX_MBUFS 1024 /* mbufs that point to ranks' frames while a driver copies them */

enum command_kind { CMD_WIRE, CMD_SLOT_ADD, CMD_SLOT_REMOVE, CMD_STOP };

struct hk_switch_command {
	enum command_kind kind;
	unsigned index;
	const struct hk_switch_wire *wire;
	const struct hk_switch_slot *slot;
	struct hk_error *err;
	int rc;
	sem_t done;
};

/* ---- commands -------------------------------------------------------------------------------- */

static int pipe_open(struct hk_switch *sw, unsigned slot, unsigned wire, struct hk_error *err)
{
	struct hk_switch_entry *s = &sw->slot[slot];

	return hk_pipe_open(&s->config.pipes[wire], s->config.tx_pool, s->share, &s->end[wire],
			    err);
}

void hk_switch_do_remove(struct hk_switch *sw, unsigned slot)
{
	struct hk_switch_entry *s = &sw->slot[slot];

	for (unsigned w = 0; w < HK_SWITCH_WIRES; w++)
		hk_pipe_close(s->end[w]);
	hk_pipe_share_free(s->share);
	*s = (struct hk_switch_entry){.used = false};
	while (sw->slots && !sw->slot[sw->slots - 1].used)
		sw->slots--;
	sw->last_slot = 0;
}

int hk_switch_do_add(struct hk_switch *sw, unsigned slot, const struct hk_switch_slot *what,
		     struct hk_error *err)
{
	int rc = 0;

	/* a restarted rank may attach before its old slot is free */
	for (unsigned s = 0; s < sw->slots; s++)
		if (sw->slot[s].config.endpoint == what->endpoint &&
		    sw->slot[s].config.job_key == what->job_key)
			sw->slot[s].replaced = true;
#define RESET(name, ...) atomic_store_explicit(&sw->pipes[slot].name, 0, memory_order_relaxed);
	HK_PIPE_COUNTERS(RESET)
#undef RESET
	sw->slot[slot] = (struct hk_switch_entry){
		.used = true, .config = *what, .share = hk_pipe_share_new(what->share)};
	atomic_store_explicit(&sw->corrupt[slot], false, memory_order_relaxed);
	sw->slots = HK_MAX(sw->slots, slot + 1);
	for (unsigned w = 0; rc == 0 && w < sw->wires; w++)
		if (sw->wire[w].port)
			rc = pipe_open(sw, slot, w, err);
	if (rc)
		hk_switch_do_remove(sw, slot);
	return rc;
}

int hk_switch_do_wire(struct hk_switch *sw, unsigned index, const struct hk_switch_wire *wire,
		      struct hk_error *err)
{
	int rc = 0;

	struct hk_port *port = wire ? wire->port : NULL;

	hk_wakeup_unlisten_fd(sw->wait_fd[index]);
	sw->wait_fd[index] = port ? hk_port_wait_fd(port) : -1;
	sw->can_wake[index] = port &&
			      (hk_wakeup_listen_fd(sw->wait_fd[index]) ||
			       hk_wakeup_listen_wire(port)) &&
			      !port->faults; /* delayed frames need polls */
	sw->tx_at[index] = 0;
	sw->wire[index] = wire ? *wire : (struct hk_switch_wire){0};
	for (unsigned s = 0; rc == 0 && s < sw->slots; s++) {
		struct hk_switch_entry *slot = &sw->slot[s];

		hk_pipe_close(slot->end[index]);
		slot->end[index] = NULL;
		if (wire && slot->used)
			rc = pipe_open(sw, s, index, err);
	}
	sw->wires = HK_MAX(sw->wires, index + 1);
	while (sw->wires && !sw->wire[sw->wires - 1].port)
		sw->wires--;
	sw->relays = false;
	for (unsigned w = 0; w < sw->wires; w++)
		sw->relays |= sw->wire[w].port &&
			      sw->wire[w].port->info.queues > sw->wire[w].queues;
	return rc;
}

void hk_switch_run_commands(struct hk_switch *sw)
{
	struct hk_switch_command *c = atomic_load_explicit(&sw->command, memory_order_acquire);

	if (!c)
		return;
	switch (c->kind) {
	case CMD_WIRE:
		c->rc = hk_switch_do_wire(sw, c->index, c->wire, c->err);
		break;
	case CMD_SLOT_ADD:
		c->rc = hk_switch_do_add(sw, c->index, c->slot, c->err);
		break;
	case CMD_SLOT_REMOVE:
		hk_switch_do_remove(sw, c->index);
		break;
	case CMD_STOP:
		sw->stop = true;
		break;
	}
	atomic_store_explicit(&sw->command, NULL, memory_order_release);
	sem_post(&c->done);
}

static int command(struct hk_switch *sw, struct hk_switch_command *c, struct hk_error *err)
{
	c->err = err;
	c->rc = 0;
	if (sem_init(&c->done, 0, 0) != 0)
		return hk_error_set(err, -errno, "cannot create a semaphore: %s", strerror(errno));
	atomic_store_explicit(&sw->command, c, memory_order_release);
	(void)hk_wakeup_send(HK_WAKEUP_SWITCH);
	if (!hk_watchdog_wait(&c->done, atomic_load(&sw->cpu), &sw->watchdog)) {
		char text[160];

		/* the switch may still carry it out, so the command cannot be taken back */
		snprintf(text, sizeof(text),
			 "aborts: its switch made no progress in %u ms, or in %u ms of CPU time; "
			 "fix: "
			 "give it a core (option cpus)",
			 sw->watchdog.wall_ms, sw->watchdog.cpu_ms);
		sw->abort_log.write(sw->abort_log.arg, text);
		fprintf(stderr, "hikyakud: %s\n", text);
		abort();
	}
	sem_destroy(&c->done);
	return c->rc;
}

/* ---- the main thread's side ------------------------------------------------------------------ */

int hk_switch_create(const struct hk_abort_log *log, struct hk_switch **out, struct hk_error *err)
{
	struct hk_switch *sw = calloc(1, sizeof(*sw));

	if (!sw)
		return hk_error_set(err, -ENOMEM, "no memory for the switch");
	sw->abort_log = *log;
	sw->watchdog = (struct hk_watchdog){HK_SWITCH_CPU_MS, HK_SWITCH_WAIT_MS};
	for (unsigned w = 0; w < HK_SWITCH_WIRES; w++)
		sw->wait_fd[w] = -1;
	hk_switch_set_times(sw);
	int rc = hk_wakeup_listen(HK_WAKEUP_SWITCH, &sw->wakeup_fd, err);

	if (rc) {
		free(sw);
		return rc;
	}
	sw->tx_mbufs = rte_pktmbuf_pool_create("hk_switch_tx", TX_MBUFS, 128, 0, 0, SOCKET_ID_ANY);
	if (!sw->tx_mbufs) {
		free(sw);
		return hk_error_set(err, -ENOMEM,
				    "no memory for the switch's buffers; fix: give "
				    "DPDK more memory");
	}
	*out = sw;
	return 0;
}

void hk_switch_destroy(struct hk_switch *sw)
{
	rte_mempool_free(sw->tx_mbufs);
	free(sw);
}

int hk_switch_start(unsigned lcore, const struct hk_abort_log *log, struct hk_switch **out,
		    struct hk_error *err)
{
	struct hk_switch *sw = NULL;
	int rc = hk_switch_create(log, &sw, err);

	*out = NULL;
	if (rc)
		return rc;
	sw->lcore = lcore;
	rc = rte_eal_remote_launch(hk_switch_loop, sw, lcore);
	if (rc) {
		hk_switch_destroy(sw);
		return hk_error_set(err, rc, "the switch does not start: %s", strerror(-rc));
	}
	*out = sw;
	return 0;
}

void hk_switch_stop(struct hk_switch *sw)
{
	struct hk_switch_command c = {.kind = CMD_STOP};
	struct hk_error err;

	if (!sw)
		return;
	(void)command(sw, &c, &err);
	rte_eal_wait_lcore(sw->lcore);
	hk_switch_destroy(sw);
}

int hk_switch_wire(struct hk_switch *sw, unsigned index, const struct hk_switch_wire *wire,
		   struct hk_error *err)
{
	struct hk_switch_command c = {.kind = CMD_WIRE, .index = index, .wire = wire};

	return command(sw, &c, err);
}

int hk_switch_slot_add(struct hk_switch *sw, unsigned slot, const struct hk_switch_slot *s,
		       struct hk_error *err)
{
	struct hk_switch_command c = {.kind = CMD_SLOT_ADD, .index = slot, .slot = s};

	return command(sw, &c, err);
}

int hk_switch_slot_remove(struct hk_switch *sw, unsigned slot, struct hk_error *err)
{
	struct hk_switch_command c = {.kind = CMD_SLOT_REMOVE, .index = slot};

	return command(sw, &c, err);
}

bool hk_switch_slot_is_corrupt(const struct hk_switch *sw, unsigned slot)
{
	return atomic_load_explicit(&sw->corrupt[slot], memory_order_relaxed);
}

void hk_switch_counters(const struct hk_switch *sw, struct hk_switch_counters *n)
{
#define COPY(name, ...) n->name = sw->n.name;
	HK_SWITCH_COUNTERS(COPY)
#undef COPY
}

void hk_switch_pipe_counters(const struct hk_switch *sw, unsigned slot, struct hk_pipe_levels *n)
{
#define COPY(name, ...) n->name = sw->pipes[slot].name;
	HK_PIPE_COUNTERS(COPY)
#undef COPY
}
