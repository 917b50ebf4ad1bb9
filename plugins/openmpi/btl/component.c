/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/component.c: what Open MPI loads. Starts DPDK, the port and the worker, publishes
 * the rank's addresses, and polls.
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "openmpi/version.h"
#include "hikyaku/service.h"

#include "opal/mca/base/mca_base_var.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(((struct hk_modex *)0)->path[0].address) == HK_PORT_ADDRESS, "it fits");

static int component_open(void)
{
	mca_btl_hikyaku_component.output = opal_output_open(NULL);
	opal_output_set_verbosity(mca_btl_hikyaku_component.output,
				  mca_btl_hikyaku_component.param.verbose);
	return OPAL_SUCCESS;
}

static int component_close(void)
{
	hk_service_publish(NULL);
	opal_output_close(mca_btl_hikyaku_component.output);
	return OPAL_SUCCESS;
}

void hk_btl_error(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	hk_btl_add_parameters(text, sizeof(text));
	opal_output(0, "hikyaku: %s: %s", opal_process_info.nodename, text);
}

/* True if the user named this BTL (--mca btl hikyaku,…). */
static bool named_by_user(void)
{
	const char *const *list = NULL;
	int index = mca_base_var_find("opal", "btl", NULL, NULL);

	if (index < 0 || mca_base_var_get_value(index, &list, NULL, NULL) != OPAL_SUCCESS ||
	    !list || !*list)
		return false;
	return **list != '^' && strstr(*list, "hikyaku") != NULL;
}

/* Publishes our addresses and the service (hikyaku/service.h) in the modex. @port:
 * one for each path; NULLs with a polling process, and for sets of wires. */
int hk_btl_publish(struct hk_port *const *port)
{
	struct hk_modex m = {
		.magic = HK_MODEX_MAGIC,
		.version = HK_MODEX_VERSION,
		.key = hk_btl.key,
		.endpoint = hk_btl.endpoint,
		.epoch = hk_btl.epoch,
		.wire_set = hk_btl.ports.wire_set,
		.protection = hk_btl.protection,
		.same_node = hk_btl.same_node,
		.path_count = (uint8_t)hk_btl.ports.count,
		.known_job = (uint8_t)hk_btl_known_job(),
	};
	int rc;

	for (unsigned i = 0; i < hk_btl.ports.count; i++) {
		m.path[i].frame_max = hk_port_wire_frame_max(hk_btl.ports.spec[i]);
		if (!port[i])
			continue;
		memcpy(m.path[i].mac, port[i]->info.mac, 6);
		m.path[i].has_address = hk_port_address(port[i], m.path[i].address);
		m.path[i].udp = port[i]->info.datagrams;
		m.path[i].network = hk_port_network(port[i]);
		m.path[i].frame_max = port[i]->info.frame_max;
	}
	if (hk_btl.daemon) {
		const struct hk_ctl_welcome *lease = hk_hosted_lease(hk_btl.daemon);

		memcpy(m.path[0].mac, lease->mac, 6);
		m.path[0].frame_max = (uint16_t)lease->frame_max;
		m.node_id = lease->node_id;
		m.mode = lease->mode;
		m.slot = lease->slot;
		m.slots = lease->slots;
		m.eager = lease->eager;
	}
	const uint8_t *public_key = hk_worker_public_key(hk_btl.worker);

	if (public_key)
		memcpy(m.public_key, public_key, sizeof(m.public_key));
	snprintf(m.host, sizeof(m.host), "%s", opal_process_info.nodename);
	hk_btl.self = m;
	OPAL_MODEX_SEND(rc, HK_GLOBAL, &mca_btl_hikyaku_component.super.btl_version, &m, sizeof(m));
	const char *companion = hk_service_companion();

	if (rc == OPAL_SUCCESS && companion)
		OPAL_MODEX_SEND_STRING(rc, HK_GLOBAL, HK_SERVICE_COMPANION_KEY, companion,
				       strlen(companion) + 1);
	return rc;
}

static mca_btl_base_module_t **component_init(int *num_btls, bool enable_progress_threads,
					      bool enable_mpi_threads)
{
	const struct hk_btl_params *p = &mca_btl_hikyaku_component.param;
	struct hk_error err = {""};
	mca_btl_base_module_t **list;

	(void)enable_progress_threads;
	*num_btls = 0;
	/* who has not asked for this BTL gets none of its ports */
	if ((!p->port || !*p->port) && !named_by_user())
		return NULL;
	hk_btl_announce_unknown_parameters();
	if (hk_hosted_check_mode(p->mode, "btl_hikyaku_mode", &err) != 0) {
		hk_btl_announce_failure(err.text);
		return NULL;
	}
	/* such ranks need no port, and nobody has asked for a certain one */
	if (hk_btl_port_is_auto() && !p->same_node && hk_btl_job_is_on_one_node()) {
		hk_btl_announce();
		return NULL;
	}
	hk_btl.threads = enable_mpi_threads;
	/* Endpoints made late would take our lock under ob1's, and handlers take them the other way
	 * round: so with threads all are made at start. */
	if (enable_mpi_threads || HK_ALL_ENDPOINTS)
		hk_btl.super.btl_flags |= MCA_BTL_FLAGS_SINGLE_ADD_PROCS;
	/* osc/rdma of 4.1 looks for these two flags of btl_atomic_flags in btl_flags, where no
	 * other flags have their values. Our atomic operations are the processor's, so they may be
	 * mixed with those. In btl_atomic_flags itself, GLOB would make osc/rdma count one more
	 * reachable rank than there is. */
	if (hk_btl.super.btl_flags & MCA_BTL_FLAGS_ATOMIC_FOPS)
		hk_btl.super.btl_flags |= MCA_BTL_ATOMIC_SUPPORTS_GLOB |
					  MCA_BTL_ATOMIC_SUPPORTS_32BIT;
	int rc = hk_btl_module_init(&err);
	if (rc != 0) {
		hk_btl_announce_failure(err.text);
		return NULL;
	}
	list = malloc(sizeof(*list));
	if (!list)
		return NULL;
	list[0] = &hk_btl.super;
	hk_service_publish(&hk_btl_service);
	*num_btls = 1;
	return list;
}

static struct hk_idle idle; /* under our lock */

static int component_progress(void)
{
	uint64_t sleep_ns = 0;
	int done;

	if (hk_btl.threads && pthread_mutex_trylock(&hk_btl.lock) != 0)
		return 0;
	done = (int)hk_worker_progress(hk_btl.worker);
	if (HK_UNLIKELY(hk_btl.same_node) && hk_same_node_busy())
		done += hk_same_node_progress();
	if (HK_UNLIKELY(hk_btl.pending != NULL))
		hk_btl_finish_pending(false);
	if (HK_UNLIKELY(opal_progress_yield_when_idle)) {
		if (done)
			hk_idle_busy(&idle);
		else
			sleep_ns = hk_worker_idle(hk_btl.worker, &idle);
	}
	hk_btl_unlock();
	if (HK_LIKELY(sleep_ns == 0))
		return done;
	/* Without the lock, so that other threads may send, and those that poll in vain sleep, too.
	 * The returned 1 keeps Open MPI from yielding as well. */
	struct timespec t = {.tv_nsec = (long)sleep_ns};
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	return 1;
}

struct hk_btl_component mca_btl_hikyaku_component __attribute__((visibility("default"))) = {
	.super =
		{
			.btl_version =
				{
					MCA_BTL_DEFAULT_VERSION("hikyaku"),
					.mca_open_component = component_open,
					.mca_close_component = component_close,
					.mca_register_component_params = hk_btl_register,
				},
			.btl_data = {MCA_BASE_METADATA_PARAM_NONE},
			.btl_init = component_init,
			.btl_progress = component_progress,
		},
};
