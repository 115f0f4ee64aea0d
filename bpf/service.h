/* SPDX-License-Identifier: GPL-2.0 */
/* From a frontend to one of its endpoints. */
#ifndef HAIRPIN_BPF_SERVICE_H
#define HAIRPIN_BPF_SERVICE_H

#include "bpf/hash.h"
#include "bpf/maps.h"
#include "bpf/packet.h"

/* Where a new flow goes. */
struct target {
	struct hp_addr address;
	__be16 port;
	__u16 pad;
	__u32 backend; /* 0: the packet's own destination */
	__u32 epoch;
	__u32 service;
};

enum choice {
	CHOICE_ENDPOINT,
	CHOICE_NO_SERVICE,
	CHOICE_NO_ENDPOINT,
	CHOICE_CHANGED,
};

/* Roles of an address, HP_ROLE_*; most have none. */
static __always_inline __u32 gate(const struct hp_addr *address)
{
	const struct hp_gate *entry = bpf_map_lookup_elem(&hp_frontends, address);

	return entry ? entry->roles : 0;
}

static __always_inline bool find_service(const struct hp_frontend *frontend, __u64 *slots, __u32 *service)
{
	const volatile struct hp_service *found = bpf_map_lookup_elem(&hp_services, frontend);

	if (!found)
		return false;
	*slots = found->slots;
	*service = found->service;
	return true;
}

/*
 * An element of a preallocated hash can be reused for another key while it is being read. So what was chosen counts
 * only if the slot is of the service's generation and a second look finds the same service.
 */
static __always_inline enum choice choose_once(const struct hp_tuple *tuple, const struct hp_frontend *frontend,
					       struct target *target)
{
	const volatile struct hp_slot *slot;
	const struct hp_backend *backend;
	__u64 slots, again;
	__u32 service, index, count;

	if (!find_service(frontend, &slots, &target->service))
		return CHOICE_NO_SERVICE;
	count = hp_slots_count(slots);
	if (count) {
		index = hp_slots_base(slots) + (__u32)((__u64)hash(tuple, config.seed) * count >> 32);
		slot = bpf_map_lookup_elem(&hp_slots, &index);
		if (!slot || slot->generation != hp_slots_generation(slots))
			return CHOICE_CHANGED;
		target->backend = slot->backend;
		backend = bpf_map_lookup_elem(&hp_backends, &target->backend);
		if (!backend)
			return CHOICE_CHANGED;
		target->address = backend->address;
		target->port = backend->port;
		target->epoch = backend->epoch;
	}
	if (!find_service(frontend, &again, &service) || again != slots || service != target->service)
		return CHOICE_CHANGED;
	return count ? CHOICE_ENDPOINT : CHOICE_NO_ENDPOINT;
}

static __noinline enum choice choose(const struct hp_tuple *tuple, struct target *target)
{
	struct hp_frontend frontend = {.address = tuple->dst, .port = tuple->dport, .protocol = tuple->protocol};
	enum choice choice = choose_once(tuple, &frontend, target);

	return choice == CHOICE_CHANGED ? choose_once(tuple, &frontend, target) : choice;
}

#endif
