/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/udp_peers.c: see port/udp_peers.h.
 */
#include "port/udp_peers.h"

#include "base/common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t number(const uint8_t name[6])
{
	uint64_t n = 0;

	memcpy(&n, name, 6);
	return n;
}

void hk_udp_name(const union hk_inet_addr *at, uint8_t name[6])
{
	uint64_t half[2];

	if (at->any.sa_family != AF_INET6) {
		memcpy(name, &at->v4.sin_addr.s_addr, 4);
		memcpy(name + 4, &at->v4.sin_port, 2);
		return;
	}
	memcpy(half, &at->v6.sin6_addr, sizeof(half));
	uint64_t n = hk_udp_mix(hk_udp_mix(hk_udp_mix(half[0]) ^ half[1]) ^ at->v6.sin6_port);

	memcpy(name, &n, 6);
	name[0] = (uint8_t)((name[0] | 2) & ~1); /* locally administered, one station */
}

/* The place of @name in the table, or the free one where it belongs. */
static struct hk_udp_peer *place(struct hk_udp_peer *known, unsigned slots, uint64_t name)
{
	unsigned i = (unsigned)(name >> 8) & (slots - 1);

	while (known[i].name && known[i].name != name)
		i = (i + 1) & (slots - 1);
	return &known[i];
}

static int grow(struct hk_udp_peers *p)
{
	unsigned slots = p->slots ? 2 * p->slots : 16;
	struct hk_udp_peer *larger = calloc(slots, sizeof(*larger));

	if (!larger)
		return -ENOMEM;
	for (unsigned i = 0; i < p->slots; i++)
		if (p->known[i].name)
			*place(larger, slots, p->known[i].name) = p->known[i];
	free(p->known);
	p->known = larger;
	p->slots = slots;
	return 0;
}

int hk_udp_peers_add(struct hk_udp_peers *p, const union hk_inet_addr *at)
{
	uint8_t name[6];

	if (2 * (p->count + 1) > p->slots && grow(p) != 0)
		return -ENOMEM;
	hk_udp_name(at, name);
	struct hk_udp_peer *peer = place(p->known, p->slots, number(name));

	p->count += peer->name == 0;
	*peer = (struct hk_udp_peer){number(name), *at};
	return 0;
}

static unsigned heard_at(uint64_t name)
{
	return (unsigned)(name >> 8) % HK_UDP_HEARD;
}

void hk_udp_peers_heard(struct hk_udp_peers *p, const uint8_t name[6], const union hk_inet_addr *at)
{
	struct hk_udp_peer *peer = &p->heard[heard_at(number(name))];

	if (HK_UNLIKELY(peer->name != number(name)))
		*peer = (struct hk_udp_peer){number(name), *at};
}

const union hk_inet_addr *hk_udp_peers_find(const struct hk_udp_peers *p, const uint8_t name[6])
{
	uint64_t n = number(name);

	if (HK_LIKELY(p->slots)) {
		const struct hk_udp_peer *peer = place(p->known, p->slots, n);

		if (HK_LIKELY(peer->name))
			return &peer->at;
	}
	const struct hk_udp_peer *heard = &p->heard[heard_at(n)];

	return n && heard->name == n ? &heard->at : NULL;
}

void hk_udp_peers_free(struct hk_udp_peers *p)
{
	free(p->known);
	*p = (struct hk_udp_peers){0};
}
