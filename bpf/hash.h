/* SPDX-License-Identifier: GPL-2.0 */
/* Which endpoint slot a new flow takes, and where the search for a free source port begins. */
#ifndef HAIRPIN_BPF_HASH_H
#define HAIRPIN_BPF_HASH_H

#include "maps/layout.h"

#define TUPLE_WORDS (sizeof(struct hp_tuple) / sizeof(__u32))

static __always_inline __u32 rotate_left(__u32 value, __u32 bits)
{
	return value << bits | value >> (32 - bits);
}

/* MurmurHash3_x86_32 (Austin Appleby, public domain) over the tuple's words. */
static __always_inline __u32 hash(const struct hp_tuple *tuple, __u32 seed)
{
	const __u32 *word = (const __u32 *)tuple;
	__u32 h = seed;

	for (__u32 i = 0; i < TUPLE_WORDS; i++) {
		h ^= rotate_left(word[i] * 0xcc9e2d51, 15) * 0x1b873593;
		h = rotate_left(h, 13) * 5 + 0xe6546b64;
	}
	h ^= sizeof(*tuple);
	h ^= h >> 16;
	h *= 0x85ebca6b;
	h ^= h >> 13;
	h *= 0xc2b2ae35;
	return h ^ h >> 16;
}

#endif
