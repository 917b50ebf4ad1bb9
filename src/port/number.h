/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/number.h: numbers for ports that DPDK has not made.
 *
 * rte_eth_rx_burst() and rte_eth_tx_burst() find the functions of a device in rte_eth_fp_ops, by
 * its number. A port of our own takes a number at the upper end and puts its functions there. So
 * the way of a frame has no branch for it.
 */
#ifndef HK_PORT_NUMBER_H
#define HK_PORT_NUMBER_H

#include "port/internal.h"

typedef uint16_t hk_burst(void *queue, struct rte_mbuf **m, uint16_t n);

/* Takes a number for @p, whose one queue is @queue. -ENFILE: there is none left. */
int hk_number_take(struct hk_port_impl *p, void *queue, hk_burst *rx, hk_burst *tx,
		   struct hk_error *err);

/* Returns the lowest number that is taken; RTE_MAX_ETHPORTS: none is. */
unsigned hk_number_lowest(void);

/* Gives it back, if @p has taken one for @queue. */
void hk_number_give(struct hk_port_impl *p, const void *queue);

#endif
