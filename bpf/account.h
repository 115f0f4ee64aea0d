/* SPDX-License-Identifier: GPL-2.0 */
/* Counters. */
#ifndef HAIRPIN_BPF_ACCOUNT_H
#define HAIRPIN_BPF_ACCOUNT_H

#include "bpf/maps.h"

static __always_inline void count(enum hp_reason reason)
{
	__u32 key = reason;
	__u64 *counter = bpf_map_lookup_elem(&hp_counters, &key);

	if (counter)
		++*counter; /* per CPU, and a tc program is not interrupted by another one */
}

#endif
