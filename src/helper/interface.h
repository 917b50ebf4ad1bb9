/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/interface.h: an interface with our XDP program, as long as somebody uses it.
 */
#ifndef HK_HELPER_INTERFACE_H
#define HK_HELPER_INTERFACE_H

#include "helper/xdp.h"
#include "hikyaku/error.h"

#include <net/if.h>
#include <stdbool.h>

struct hk_interface {
	char name[IF_NAMESIZE];
	unsigned index;
	bool native; /* the program runs in the driver */
	uint8_t mac[6];
	unsigned mtu;
	unsigned users;         /* the caller counts them */
	uint64_t slots;         /* bit N - 1: slot N is taken; the caller's, too */
	struct hk_xdp *program; /* private */
};

/* Attaches the program to @name. Codes: -ENODEV; -EBUSY another program is there; -EPERM. */
int hk_interface_open(struct hk_interface *i, const char *name, struct hk_error *err);

/* Detaches it. */
void hk_interface_close(struct hk_interface *i);

/* From now on, slot @slot is the AF_XDP socket @fd. -1: it is none. */
int hk_interface_set_socket(struct hk_interface *i, uint32_t slot, int fd);

/* Tells the program who gets which frames of @queue. */
int hk_interface_set_queue(struct hk_interface *i, uint32_t queue, const struct hk_xdp_queue *to);

/* Gives the frames of @claim to @slot. -EBUSY: another has them; -ENOSPC. */
int hk_interface_claim(struct hk_interface *i, const struct hk_xdp_claim *claim, uint32_t slot);

/* The same for datagrams. */
int hk_interface_claim_datagrams(struct hk_interface *i, const struct hk_xdp_datagrams *what,
				 uint32_t slot);
void hk_interface_leave_datagrams(struct hk_interface *i, const struct hk_xdp_datagrams *what);

/* Ends all claims of @slot. Returns how many there were. */
unsigned hk_interface_unclaim(struct hk_interface *i, uint32_t slot);

#endif
