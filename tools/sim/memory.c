/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/memory.c: memory that is there, or the program ends. See events.h.
 */
#include "sim/events.h"

#include <stdio.h>
#include <stdlib.h>

void sim_no_memory(void)
{
	fprintf(stderr, "no memory left for this simulation; fix: choose fewer hosts\n");
	exit(1);
}

static void *checked(void *memory)
{
	if (!memory)
		sim_no_memory();
	return memory;
}

void *sim_grow(void *array, uint32_t len, uint32_t *cap, size_t item)
{
	if (len < *cap)
		return array;
	*cap = *cap ? *cap * 2 : 64;
	return checked(realloc(array, *cap * item));
}

void *sim_alloc(size_t bytes)
{
	return checked(calloc(1, HK_MAX(bytes, (size_t)1)));
}
