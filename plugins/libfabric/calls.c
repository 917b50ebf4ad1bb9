/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/calls.c: the calls of fi_msg(3), fi_tagged(3), fi_rma(3) and fi_atomic(3). Each is
 * translated into the struct of its longest form, with flags, for one function of each kind.
 */
#include "libfabric/provider.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* our buffers need no descriptors */

#define EP          struct fid_ep *ep
#define DATA        FI_REMOTE_CQ_DATA
#define INJECT      HK_FI_SILENT
#define ONE(b, len) HK_FI_PIECE(b, len)

/* The name of a call, its parameters, and its translation. */
#define CALL(name, parameters, translation)                                                        \
	static ssize_t name parameters                                                             \
	{                                                                                          \
		return translation;                                                                \
	}

/* Flags of a call without flags: those of its endpoint. An injection has none of them. */
static uint64_t with_flags(EP, uint64_t kind)
{
	return kind & INJECT ? kind : kind | hk_fi_ep_of(ep)->tx_flags;
}

/* Flags that an application has given. */
static uint64_t given(uint64_t flags)
{
	return flags & ~HK_FI_SILENT;
}

/* ---- messages -------------------------------------------------------------------------------- */

static ssize_t simple_send(EP, uint64_t kind, const struct iovec *iov, void **desc, size_t count,
			   fi_addr_t to, uint64_t tag, uint64_t data, void *context)
{
	const struct fi_msg_tagged m = {iov, desc, count, to, tag, 0, context, data};

	return hk_fi_send(ep, &m, with_flags(ep, kind));
}

static ssize_t simple_recv(EP, uint64_t kind, const struct iovec *iov, void **desc, size_t count,
			   fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
	const struct fi_msg_tagged m = {iov, desc, count, from, tag, ignore, context, 0};

	return hk_fi_receive(ep, &m, hk_fi_ep_of(ep)->rx_flags | kind);
}

/* A struct fi_msg in the form of a tagged one. */
#define UNTAGGED(m)                                                                                \
	(&(const struct fi_msg_tagged){(m)->msg_iov, (m)->desc, (m)->iov_count, (m)->addr, 0, 0,   \
				       (m)->context, (m)->data})

CALL(msg_sendmsg, (EP, const struct fi_msg *msg, uint64_t flags),
     hk_fi_send(ep, UNTAGGED(msg), given(flags) | FI_MSG))
CALL(msg_recvmsg, (EP, const struct fi_msg *msg, uint64_t flags),
     hk_fi_receive(ep, UNTAGGED(msg), given(flags) | FI_MSG))
CALL(tagged_sendmsg, (EP, const struct fi_msg_tagged *msg, uint64_t flags),
     hk_fi_send(ep, msg, given(flags) | FI_TAGGED))
CALL(tagged_recvmsg, (EP, const struct fi_msg_tagged *msg, uint64_t flags),
     hk_fi_receive(ep, msg, given(flags) | FI_TAGGED))

/* The other calls of both kinds differ in their tags alone. @TAG, @TAGS: parameters. */
#define MESSAGES(kind, KIND, TAG, TAGS, tag_, ignore_)                                             \
	CALL(kind##_send,                                                                          \
	     (EP, const void *buf, size_t len, void *desc, fi_addr_t to TAG, void *context),       \
	     simple_send(ep, KIND, ONE(buf, len), NULL, 1, to, tag_, 0, context))                  \
	CALL(kind##_sendv,                                                                         \
	     (EP, const struct iovec *iov, void **desc, size_t count, fi_addr_t to TAG,            \
	      void *context),                                                                      \
	     simple_send(ep, KIND, iov, desc, count, to, tag_, 0, context))                        \
	CALL(kind##_senddata,                                                                      \
	     (EP, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to TAG,        \
	      void *context),                                                                      \
	     simple_send(ep, KIND | DATA, ONE(buf, len), NULL, 1, to, tag_, data, context))        \
	CALL(kind##_inject, (EP, const void *buf, size_t len, fi_addr_t to TAG),                   \
	     simple_send(ep, KIND | INJECT, ONE(buf, len), NULL, 1, to, tag_, 0, NULL))            \
	CALL(kind##_injectdata,                                                                    \
	     (EP, const void *buf, size_t len, uint64_t data, fi_addr_t to TAG),                   \
	     simple_send(ep, KIND | INJECT | DATA, ONE(buf, len), NULL, 1, to, tag_, data, NULL))  \
	CALL(kind##_recv,                                                                          \
	     (EP, void *buf, size_t len, void *desc, fi_addr_t from TAGS, void *context),          \
	     simple_recv(ep, KIND, ONE(buf, len), NULL, 1, from, tag_, ignore_, context))          \
	CALL(kind##_recvv,                                                                         \
	     (EP, const struct iovec *iov, void **desc, size_t count, fi_addr_t from TAGS,         \
	      void *context),                                                                      \
	     simple_recv(ep, KIND, iov, desc, count, from, tag_, ignore_, context))                \
	struct fi_ops_##kind hk_fi_##kind##_ops = {                                                \
		.size = sizeof(hk_fi_##kind##_ops),                                                \
		.recv = kind##_recv,                                                               \
		.recvv = kind##_recvv,                                                             \
		.recvmsg = kind##_recvmsg,                                                         \
		.send = kind##_send,                                                               \
		.sendv = kind##_sendv,                                                             \
		.sendmsg = kind##_sendmsg,                                                         \
		.inject = kind##_inject,                                                           \
		.senddata = kind##_senddata,                                                       \
		.injectdata = kind##_injectdata,                                                   \
	};

#define TAG  , uint64_t tag
#define TAGS , uint64_t tag, uint64_t ignore
MESSAGES(msg, FI_MSG, , , 0, 0)
MESSAGES(tagged, FI_TAGGED, TAG, TAGS, tag, ignore)

/* ---- memory of others ------------------------------------------------------------------------ */

static ssize_t simple_rma(EP, uint64_t kind, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t to, uint64_t addr, uint64_t key, uint64_t data, void *context)
{
	const struct fi_rma_iov at = {.addr = addr, .key = key};
	const struct fi_msg_rma m = {iov, desc, count, to, &at, 1, context, data};

	return hk_fi_rma(ep, &m, with_flags(ep, kind));
}

/* Both directions have these calls. */
#define RMA(name, KIND, CONST)                                                                     \
	CALL(rma_##name,                                                                           \
	     (EP, CONST void *buf, size_t len, void *desc, fi_addr_t peer, uint64_t addr,          \
	      uint64_t key, void *context),                                                        \
	     simple_rma(ep, KIND, ONE(buf, len), NULL, 1, peer, addr, key, 0, context))            \
	CALL(rma_##name##v,                                                                        \
	     (EP, const struct iovec *iov, void **desc, size_t count, fi_addr_t peer,              \
	      uint64_t addr, uint64_t key, void *context),                                         \
	     simple_rma(ep, KIND, iov, desc, count, peer, addr, key, 0, context))                  \
	CALL(rma_##name##msg, (EP, const struct fi_msg_rma *msg, uint64_t flags),                  \
	     hk_fi_rma(ep, msg, given(flags) | KIND))

RMA(read, FI_READ, )
RMA(write, FI_WRITE, const)
CALL(rma_writedata,
     (EP, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to, uint64_t addr,
      uint64_t key, void *context),
     simple_rma(ep, FI_WRITE | DATA, ONE(buf, len), NULL, 1, to, addr, key, data, context))
CALL(rma_inject, (EP, const void *buf, size_t len, fi_addr_t to, uint64_t addr, uint64_t key),
     simple_rma(ep, FI_WRITE | INJECT, ONE(buf, len), NULL, 1, to, addr, key, 0, NULL))
CALL(rma_injectdata,
     (EP, const void *buf, size_t len, uint64_t data, fi_addr_t to, uint64_t addr, uint64_t key),
     simple_rma(ep, FI_WRITE | INJECT | DATA, ONE(buf, len), NULL, 1, to, addr, key, data, NULL))

struct fi_ops_rma hk_fi_rma_ops = {
	.size = sizeof(hk_fi_rma_ops),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};

/* ---- atomic operations ----------------------------------------------------------------------- */

#define THERE      fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op
#define ITEM(b, n) (&(const struct fi_ioc){(void *)(uintptr_t)(b), (n)})

static ssize_t simple_atomic(EP, uint64_t kind, const struct fi_ioc *ioc, size_t count,
			     const struct fi_ioc *compare, size_t compares,
			     const struct fi_ioc *result, size_t results, THERE, void *context)
{
	const struct fi_rma_ioc at = {.addr = addr, .key = key};
	const struct fi_msg_atomic m = {ioc, NULL, count, to, &at, 1, type, op, context, 0};

	return hk_fi_atomic(ep, &m, compare, compares, result, results, with_flags(ep, kind));
}

/* The kinds differ in the buffers beside the operands. @WITH, @WITH_V: parameters of these; @ALSO,
 * @ALSO_V: their translation. */
#define ATOMIC(name, KIND, WITH, WITH_V, ALSO, ALSO_V)                                             \
	CALL(atomic_##name,                                                                        \
	     (EP, const void *buf, size_t n, void *desc WITH, THERE, void *context),               \
	     simple_atomic(ep, KIND, ITEM(buf, n), 1, ALSO, to, addr, key, type, op, context))     \
	CALL(atomic_##name##v,                                                                     \
	     (EP, const struct fi_ioc *iov, void **desc, size_t count WITH_V, THERE,               \
	      void *context),                                                                      \
	     simple_atomic(ep, KIND, iov, count, ALSO_V, to, addr, key, type, op, context))        \
	CALL(atomic_##name##msg, (EP, const struct fi_msg_atomic *msg WITH_V, uint64_t flags),     \
	     hk_fi_atomic(ep, msg, ALSO_V, given(flags) | (KIND)))                                 \
	static int atomic_##name##valid(EP, enum fi_datatype type, enum fi_op op, size_t *count)   \
	{                                                                                          \
		return hk_fi_atomic_query(hk_fi_ep_of(ep)->domain,                                 \
					  (KIND) & (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC), type,    \
					  op, count);                                              \
	}

#define RESULT     , void *result, void *result_desc
#define RESULT_V   , struct fi_ioc *result, void **result_desc, size_t results
#define COMPARED   , const void *compare, void *compare_desc
#define COMPARED_V , const struct fi_ioc *compare, void **compare_desc, size_t compares
#define NOTHING    NULL, 0
#define LIST(...)  __VA_ARGS__
ATOMIC(write, FI_WRITE, , , LIST(NOTHING, NOTHING), LIST(NOTHING, NOTHING))
ATOMIC(fetch, FI_READ | FI_FETCH_ATOMIC, RESULT, RESULT_V, LIST(NOTHING, ITEM(result, n), 1),
       LIST(NOTHING, result, results))
ATOMIC(compare, FI_READ | FI_COMPARE_ATOMIC, COMPARED RESULT, COMPARED_V RESULT_V,
       LIST(ITEM(compare, n), 1, ITEM(result, n), 1), LIST(compare, compares, result, results))
CALL(atomic_inject, (EP, const void *buf, size_t n, THERE),
     simple_atomic(ep, FI_WRITE | INJECT, ITEM(buf, n), 1, NOTHING, NOTHING, to, addr, key, type,
		   op, NULL))

struct fi_ops_atomic hk_fi_atomic_ops = {
	.size = sizeof(hk_fi_atomic_ops),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = atomic_fetch,
	.readwritev = atomic_fetchv,
	.readwritemsg = atomic_fetchmsg,
	.compwrite = atomic_compare,
	.compwritev = atomic_comparev,
	.compwritemsg = atomic_comparemsg,
	.writevalid = atomic_writevalid,
	.readwritevalid = atomic_fetchvalid,
	.compwritevalid = atomic_comparevalid,
};
