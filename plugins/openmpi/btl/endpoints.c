/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/endpoints.c: endpoints, made from the modex of each process; and lost peers.
 *
 * With a switched port, endpoints are made at first use. With a set of point-to-point wires
 * (memif), both ends must open theirs, the server end first. So all peers are added at once
 * (MCA_BTL_FLAGS_SINGLE_ADD_PROCS), servers before clients, and no circular wait is possible.
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "openmpi/version.h"

#include <stdlib.h>
#include <unistd.h>

#define PARAMS (&mca_btl_hikyaku_component.param)

static void endpoint_construct(hk_endpoint *ep)
{
	OBJ_CONSTRUCT(&ep->pending, opal_list_t);
	ep->has_pending = false;
	ep->same_node = ep->self = false;
}

static void endpoint_destruct(hk_endpoint *ep)
{
	OBJ_DESTRUCT(&ep->pending);
}

OBJ_CLASS_INSTANCE(mca_btl_base_endpoint_t, opal_list_item_t, endpoint_construct,
		   endpoint_destruct);

/* The endpoint of a process: its job within the mpirun (spawned ones count up) and its rank. */
uint32_t hk_btl_endpoint_of(opal_process_name_t name)
{
	return ((name.jobid & 0xfff) << 20) | (name.vpid & HK_BTL_RANK_MASK);
}

bool hk_btl_read_modex(const opal_proc_t *proc, struct hk_modex *m)
{
	void *data = NULL;
	size_t size = 0;
	int rc;

	OPAL_MODEX_RECV(rc, &mca_btl_hikyaku_component.super.btl_version, &proc->proc_name, &data,
			&size);
	if (rc != OPAL_SUCCESS)
		return false;
	enum hk_modex_status status = hk_modex_read(data, size, m);

	free(data);
	if (status == HK_MODEX_VERSION_DIFFERS)
		hk_btl_error(
			"rank %u runs another version of hikyaku (%u, here %u) and is reached by "
			"other means; fix: install the same build on all nodes",
			proc->proc_name.vpid, m->version, HK_MODEX_VERSION);
	else if (status == HK_MODEX_PATHS_MALFORMED)
		hk_btl_error("rank %u on %s has published %u ports, which is impossible; fix: "
			     "give it 1 to %d, and the same build on all nodes",
			     proc->proc_name.vpid, m->host, m->path_count, HK_MODEX_PATHS);
	if (status != HK_MODEX_OK)
		return false;
	if (m->key != hk_btl.key || m->protection != hk_btl.protection ||
	    m->wire_set != hk_btl.ports.wire_set || m->mode != hk_btl_mode_current()) {
		hk_btl_error("rank %u on %s has another %s; fix: give all ranks the same "
			     "btl_hikyaku parameters",
			     proc->proc_name.vpid, m->host,
			     m->key != hk_btl.key                 ? "job key"
			     : m->protection != hk_btl.protection ? "btl_hikyaku_protection"
			     : m->wire_set != hk_btl.ports.wire_set
				     ? "kind of port"
				     : "polling mode (btl_hikyaku_mode)");
		return false;
	}
	return true;
}

/* Makes the process a peer of the worker; HK_PEER_NONE: the user has been told why not. */
static hk_peer add_peer(const struct hk_candidate *c)
{
	struct hk_error err = {""};
	char name[128];
	hk_peer peer;

	snprintf(name, sizeof(name), "rank %u on %s", c->proc->proc_name.vpid, c->m.host);
	struct hk_peer_addr addr = {
		.endpoint = c->m.endpoint,
		.epoch = c->m.epoch,
		.port = (uint16_t)c->txq,
		.bulk = (uint16_t)(c->bulk + 1),
		.frame_max = c->m.path[c->first].frame_max,
		.name = name,
		.more = c->further,
	};

	memcpy(addr.mac, c->m.path[c->first].mac, sizeof(addr.mac));
	memcpy(addr.ip6, c->m.path[c->first].address, sizeof(addr.ip6));
	memcpy(addr.path, c->path, sizeof(addr.path));
	memcpy(addr.public_key, c->m.public_key, sizeof(addr.public_key));
	if (hk_worker_peer_add(hk_btl.worker, &addr, &peer, &err) != 0) {
		hk_btl_error("%s", err.text);
		return HK_PEER_NONE;
	}
	return peer;
}

static hk_endpoint *make_endpoint(const struct hk_candidate *c)
{
	hk_peer peer = add_peer(c);

	if (peer == HK_PEER_NONE)
		return NULL;
	hk_endpoint *ep = OBJ_NEW(mca_btl_base_endpoint_t);

	ep->proc = c->proc;
	ep->peer = peer;
	hk_btl.by_peer[peer] = ep;
	opal_list_append(&hk_btl.endpoints, &ep->super);
	hk_btl_tag_peer(ep, &c->m);
	return ep;
}

static hk_endpoint *find_endpoint(const opal_proc_t *proc)
{
	hk_peer p = hk_engine_peer_find(hk_worker_engine(hk_btl.worker),
					hk_btl_endpoint_of(proc->proc_name));

	return p == HK_PEER_NONE || hk_btl.by_peer[p] == HK_DELETED ? NULL : hk_btl.by_peer[p];
}

/* Shared memory serves the ranks of a node, but only of one job. This BTL serves ranks of the node
 * that belong to another job (spawned or connected). */
static bool wanted(const opal_proc_t *proc)
{
	const opal_proc_t *me = opal_proc_local_get();

	return proc != me && (PARAMS->same_node || !OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags) ||
			      proc->proc_name.jobid != me->proc_name.jobid);
}

/* True if Open MPI prefers the BTL @name to ours. Then our BTL gets no messages to ranks that it
 * reaches. */
static bool has_precedence(const char *name)
{
	mca_btl_base_selected_module_t *m;

	OPAL_LIST_FOREACH(m, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
	if (strcmp(m->btl_component->btl_version.mca_component_name, name) == 0)
		return m->btl_module->btl_exclusivity > hk_btl.super.btl_exclusivity;
	return false;
}

/* The endpoint of a rank of our node and job, or of ourselves, for one-sided operations alone
 * (same_node.c). NULL: none. */
static hk_endpoint *local_endpoint(opal_proc_t *proc)
{
	const opal_proc_t *me = opal_proc_local_get();
	struct hk_modex m = {0};
	hk_endpoint *ep;

	if (proc->proc_name.jobid != me->proc_name.jobid ||
	    (proc != me && (!hk_btl.same_node || !OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags))))
		return NULL;
	OPAL_LIST_FOREACH(ep, &hk_btl.endpoints, hk_endpoint)
	if ((ep->same_node || ep->self) && ep->proc == proc)
		return ep;
	if (!has_precedence(proc == me ? "self" : HK_NODE_BTL) ||
	    (proc != me && (!hk_btl_read_modex(proc, &m) || !m.same_node)))
		return NULL;
	ep = OBJ_NEW(mca_btl_base_endpoint_t);
	ep->proc = proc;
	ep->peer = HK_PEER_NONE;
	ep->self = proc == me;
	ep->same_node = !ep->self;
	ep->same_node_name = (struct hk_same_node_name){hk_btl.key, m.endpoint, m.epoch};
	opal_list_append(&hk_btl.endpoints, &ep->super);
	return ep;
}

int hk_btl_add_procs(struct mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
		     hk_endpoint **endpoints, opal_bitmap_t *reachable)
{
	struct hk_candidate *list = calloc(nprocs ? nprocs : 1, sizeof(*list));
	size_t n = 0;

	(void)btl;
	if (!list)
		return OPAL_ERR_OUT_OF_RESOURCE;
	hk_btl_lock();
	for (size_t i = 0; i < nprocs; i++) {
		if (!wanted(procs[i])) {
			endpoints[i] = local_endpoint(procs[i]);
			if (endpoints[i] && reachable)
				opal_bitmap_set_bit(reachable, (int)i);
			continue;
		}
		endpoints[i] = find_endpoint(procs[i]);
		list[n] = (struct hk_candidate){
			.proc = procs[i], .index = i, .txq = -1, .bulk = -1};
		if (endpoints[i]) {
			if (reachable)
				opal_bitmap_set_bit(reachable, (int)i);
		} else if (hk_btl_read_modex(procs[i], &list[n].m)) {
			n++;
		}
	}
	hk_btl_open_txqs(list, n);
	for (size_t i = 0; i < n; i++) {
		hk_endpoint *ep = list[i].txq < 0 ? NULL : make_endpoint(&list[i]);

		endpoints[list[i].index] = ep;
		if (ep && reachable)
			opal_bitmap_set_bit(reachable, (int)list[i].index);
	}
	hk_btl_unlock();
	free(list);
	hk_btl_announce();
	return OPAL_SUCCESS;
}

/* Open MPI makes an endpoint when this rank first sends to a process. A frame of that process may
 * come before, and its key is in the modex. Processes of other jobs were added when the jobs met.
 */
bool hk_btl_stranger(void *arg, uint32_t endpoint, uint32_t epoch)
{
	opal_process_name_t name = opal_proc_local_get()->proc_name;
	struct hk_candidate c = {.txq = -1, .bulk = -1};

	(void)arg;
	name.vpid = endpoint & HK_BTL_RANK_MASK;
	if (hk_btl.ports.wire_set || hk_btl_endpoint_of(name) != endpoint ||
	    name.vpid >= hk_btl_job_size() || !(c.proc = opal_proc_for_name(name)) ||
	    !wanted(c.proc) || !hk_btl_read_modex(c.proc, &c.m) || c.m.endpoint != endpoint ||
	    c.m.epoch != epoch)
		return false;
	hk_btl_open_txqs(&c, 1);
	return c.txq >= 0 && add_peer(&c) != HK_PEER_NONE;
}

/* The worker keeps the peer, because it must still answer late frames. Only ob1 forgets it. */
int hk_btl_del_procs(struct mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
		     hk_endpoint **endpoints)
{
	(void)btl;
	(void)procs;
	hk_btl_lock();
	for (size_t i = 0; i < nprocs; i++) {
		hk_endpoint *ep = endpoints[i];

		if (!ep || (ep->peer != HK_PEER_NONE && hk_btl.by_peer[ep->peer] != ep))
			continue;
		if (ep->peer == HK_PEER_NONE) {
			opal_list_remove_item(&hk_btl.endpoints, &ep->super);
			OBJ_RELEASE(ep);
			continue;
		}
		hk_btl_finish_pending(true);
		hk_btl_drop_pending(ep);
		hk_btl.by_peer[ep->peer] = HK_DELETED;
		opal_list_remove_item(&hk_btl.endpoints, &ep->super);
		OBJ_RELEASE(ep);
	}
	hk_btl_unlock();
	return OPAL_SUCCESS;
}

/* For a silent peer: appends the fix, if @line ends with the time and names no cause. The fix
 * names its node, and how to see whether frames pass. */
static void add_silence_fix(char *line, size_t size, hk_peer peer)
{
	const char *name = peer == HK_PEER_NONE ? "" : hk_worker_peer_name(hk_btl.worker, peer);
	const char *on = strstr(name, " on ");
	char own[256] = "HOST", port[256];
	size_t n = strlen(line);

	if (!on || n < 2 || n >= size || strcmp(line + n - 2, " s") != 0)
		return;
	(void)gethostname(own, sizeof(own) - 1);
	hk_ports_text(&hk_btl.ports, port, sizeof(port));
	snprintf(line + n, size - n,
		 "; fix: see whether it still runs on %s, and then whether frames pass: "
		 "hikyaku reach --port '%s' %s %s",
		 on + 4, port, own, on + 4);
}

void hk_btl_lost(void *arg, hk_peer peer, enum hk_disconnect_reason why, const char *text)
{
	hk_endpoint *ep = peer == HK_PEER_NONE ? NULL : hk_btl.by_peer[peer];
	char line[1280];

	(void)arg;
	if (ep == HK_DELETED)
		return;
	snprintf(line, sizeof(line), "hikyaku: %s", text);
	if (why == HK_DISCONNECT_SILENT)
		add_silence_fix(line, sizeof(line), peer);
	hk_btl_add_parameters(line, sizeof(line));
	if (hk_btl.error_cb) /* ob1 prints it and ends the job */
		hk_btl.error_cb(&hk_btl.super, MCA_BTL_ERROR_FLAGS_FATAL, ep ? ep->proc : NULL,
				line); /* NULL: a passive peer */
	else
		hk_btl_error("%s", text);
}

int hk_btl_refused(int rc)
{
	if (rc == -ENOBUFS)
		return OPAL_ERR_OUT_OF_RESOURCE;
	if (rc != -ENOTCONN)
		return OPAL_ERR_BAD_PARAM;
	hk_worker_report_lost(hk_btl.worker); /* the progress thread may have learnt of it */
	return OPAL_ERR_UNREACH;
}
