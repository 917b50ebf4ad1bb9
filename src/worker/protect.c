/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/protect.c: see worker/protect.h.
 */
#include "worker/protect.h"
#include "worker/lend.h"
#include "worker/mcast_internal.h"
#include "worker/memory.h"

#include <errno.h>
#include <sys/mman.h>

#define CONTEXTS        4096u /* peers with keys at hand, at most; a context has 3 KiB */
#define CONTEXTS_SHARED 256u  /* the same where the memory is a slot of hikyakud */

_Static_assert(HK_KEY_LEN == HK_AGREE_LEN, "one length of keys");

static bool has_keys(const struct hk_worker_config *cfg)
{
	return cfg->engine.protection >= HK_PROTECTION_AUTH;
}

static struct hk_seal_config seal_config(const struct hk_worker_config *cfg)
{
	return (struct hk_seal_config){
		.protection = (enum hk_wire_protection)cfg->engine.protection,
		.job = cfg->engine.key,
		.endpoint = cfg->engine.endpoint,
		.epoch = cfg->engine.epoch,
		.contexts = HK_MIN(cfg->engine.max_peers, cfg->memory ? CONTEXTS_SHARED : CONTEXTS),
		.job_key = cfg->job_key,
	};
}

size_t hk_protect_size(const struct hk_worker_config *cfg)
{
	struct hk_seal_config c = seal_config(cfg);

	return has_keys(cfg) ? hk_seal_size(&c) : 0;
}

/* Keys are in no core dump, and a child process has none. If it used the worker, it would count as
 * its parent does, and a counter must not protect two frames. Shared memory is of DPDK, which keeps
 * it out of core dumps. Its processes start by exec. */
static void *memory_for_keys(struct hk_worker *w)
{
	size_t size = hk_protect_size(&w->cfg);

	if (w->cfg.memory)
		return hk_mem_alloc_dirty(w, size);
	void *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		return NULL;
	if (madvise(m, size, MADV_DONTDUMP) == 0 && madvise(m, size, MADV_WIPEONFORK) == 0)
		return m;
	munmap(m, size);
	return NULL;
}

static void free_keys(const struct hk_worker *w, void *memory)
{
	if (!w->cfg.memory)
		munmap(memory, hk_protect_size(&w->cfg));
}

int hk_protect_open(struct hk_worker *w, struct hk_error *err)
{
	struct hk_seal_config c = seal_config(&w->cfg);

	if (!has_keys(&w->cfg))
		return 0;
	void *memory = memory_for_keys(w);

	if (!memory)
		return hk_error_set(err, -ENOMEM, "no memory for the keys of %u peers", c.contexts);
	w->seal = hk_seal_init(memory, &c, err);
	if (!w->seal)
		free_keys(w, memory);
	return w->seal ? 0 : -ENOSYS;
}

void hk_protect_close(struct hk_worker *w)
{
	if (!w->seal)
		return;
	hk_seal_end(w->seal);
	free_keys(w, w->seal);
	w->seal = NULL;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* The frame in @b is @len bytes long, in one piece. */
static void set_len(hk_buf *b, size_t len)
{
	b->data_len = (uint16_t)len;
	b->pkt_len = (uint32_t)len;
}

/* An encrypted copy of @b. */
static hk_buf *encrypted(struct hk_worker *w, hk_peer p, const hk_buf *b)
{
	hk_buf *c = rte_pktmbuf_alloc(w->bufs.pool);

	if (HK_UNLIKELY(!c))
		return NULL;
	c->data_off = b->data_off;
	char *to = rte_pktmbuf_mtod(c, char *);
	const char *from = rte_pktmbuf_mtod(b, const char *);
	struct hk_gcm_piece piece[] = {{from + HK_ETH_HLEN, 0}, {NULL, 0}};
	unsigned count = 1;

	if (b->nb_segs == 1) { /* its length may be that of an earlier transmission */
		piece[0].len = HK_WIRE_HLEN + hk_wire_len(piece[0].base);
	} else {
		piece[0].len = b->data_len - (size_t)HK_ETH_HLEN;
		piece[1].base = rte_pktmbuf_mtod(b->next, const void *);
		piece[1].len = b->next->data_len;
		count = 2;
	}
	memcpy(to, from, HK_ETH_HLEN);
	size_t n = hk_seal_encrypt(w->seal, &w->peer[p].seal, piece, count, to + HK_ETH_HLEN);

	if (HK_UNLIKELY(n == 0)) {
		rte_pktmbuf_free_seg(c);
		return NULL;
	}
	set_len(c, HK_ETH_HLEN + n);
	return c;
}

/* @b with its tag. It may have its payload in a second mbuf. */
static hk_buf *authenticated(struct hk_worker *w, hk_peer p, hk_buf *b, char *base)
{
	struct hk_seal_peer *key = &w->peer[p].seal;

	if (HK_LIKELY(b->nb_segs == 1)) {
		if (HK_UNLIKELY(!hk_seal_sign(w->seal, key, base, NULL)))
			return NULL;
		set_len(b, HK_ETH_HLEN + HK_WIRE_HLEN + hk_wire_len(base) + HK_WIRE_SEAL_LEN);
		return b;
	}
	const struct hk_gcm_piece body = {b->next->buf_addr, b->next->data_len};

	if (HK_UNLIKELY(!hk_seal_sign(w->seal, key, base, &body)))
		return NULL;
	hk_buf_attach_trailer(b, HK_WIRE_SEAL_LEN);
	return b;
}

hk_buf *hk_protect_out(struct hk_worker *w, hk_peer p, hk_buf *b)
{
	char *base = rte_pktmbuf_mtod(b, char *) + HK_ETH_HLEN;

	switch ((enum hk_protection)w->cfg.engine.protection) {
	case HK_PROTECTION_OFF:
		break;
	case HK_PROTECTION_CRC:
		set_len(b, HK_ETH_HLEN + HK_WIRE_HLEN + hk_wire_len(base) +
				   hk_wire_frame_checksum(base));
		break;
	case HK_PROTECTION_AUTH:
		return authenticated(w, p, b, base);
	case HK_PROTECTION_SEAL:
		return encrypted(w, p, b);
	}
	return b;
}

hk_buf *hk_protect_out_once(struct hk_worker *w, hk_peer p, hk_buf *b)
{
	/* a RESET goes to somebody without a key, so it is of no use there */
	hk_buf *out = w->seal && p == HK_PEER_NONE ? NULL : hk_protect_out(w, p, b);

	if (out != b)
		rte_pktmbuf_free_seg(b);
	return out;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static HK_NOINLINE bool refused(struct hk_worker *w)
{
	w->n.drop_seal++;
	return false;
}

/* A frame from an endpoint that nobody has added. Open MPI adds peers when it first sends to them,
 * so the application may know the address and add it now. */
static HK_NOINLINE hk_peer stranger(struct hk_worker *w, const struct hk_wire_sealed *f,
				    uint64_t now, bool by_proxy)
{
	if (!w->cfg.stranger || by_proxy || now < w->stranger_at)
		return HK_PEER_NONE;
	if (!w->cfg.stranger(w->cfg.lost_arg, f->src, f->src_epoch))
		w->stranger_at = now + HK_MSEC; /* a forger must not keep us busy with that */
	return hk_engine_peer_find(w->engine, f->src);
}

bool hk_protect_in(struct hk_worker *w, struct rte_mbuf *m, uint64_t now, bool by_proxy)
{
	struct hk_wire_sealed f;

	if (HK_UNLIKELY(hk_wire_sealed_parse(rte_pktmbuf_mtod(m, void *), m->data_len,
					     (enum hk_wire_protection)w->cfg.engine.protection,
					     &f) != HK_WIRE_OK))
		return true; /* the engine finds the same rule broken, and counts it */
	if (HK_UNLIKELY(w->mcast_listeners != NULL) && hk_mcast_open_frame(w, &f))
		return true;
	if (HK_UNLIKELY(f.job != w->cfg.engine.key || f.dst != w->cfg.engine.endpoint))
		return refused(w);
	hk_peer p = hk_engine_peer_find(w->engine, f.src);

	if (HK_UNLIKELY(p == HK_PEER_NONE))
		p = stranger(w, &f, now, by_proxy);
	if (HK_UNLIKELY(p == HK_PEER_NONE || !hk_seal_open(w->seal, &w->peer[p].seal, &f, now)))
		return refused(w);
	return true;
}
