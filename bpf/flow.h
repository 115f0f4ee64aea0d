/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The flow table: find a packet's flow, follow its state, open one, end one.
 *
 * A flow is one element of hp_flows; two entries of hp_tuples, one for each direction, lead to it. Elements belong to
 * pods by chunks, and a pod's new flow only ever takes the place of a flow of the same pod. There is no timer and no
 * need for the agent: what has expired is reused when room is needed.
 *
 * Whoever wants an element takes it under its lock (take) and alone may then touch it and remove its tuples.
 * Tuples are only ever added with BPF_NOEXIST, so what is there is some flow's place and stays it until that
 * flow ends. A reader trusts an element only if the tuple in it is the packet's and the generation has not moved.
 */
#ifndef HAIRPIN_BPF_FLOW_H
#define HAIRPIN_BPF_FLOW_H

#include <linux/errno.h>
#include "bpf/account.h"
#include "bpf/packet.h"
#include "bpf/service.h"

#define FLOW_PROBES 64 /* elements looked at to find one that can be reused */
#define PORT_PROBES 32 /* source ports tried, the client's own first */
#define PORT_FIRST 1024
#define PORT_COUNT (65536 - PORT_FIRST)
#define PORT_STRIDE 40503 /* odd, so that the ports tried differ; 2^16 divided by the golden ratio */

#define NO_ELEMENT 0xffffffff

/* A packet's flow. */
struct hit {
	__u32 index;
	__u32 generation;
	enum hp_direction direction;
};

enum lookup {
	LOOKUP_NONE,
	LOOKUP_FOUND,
	LOOKUP_STALE, /* expired: its place is needed if the packet opens a flow */
};

static __always_inline struct hp_flow *flow_at(__u32 index)
{
	return bpf_map_lookup_elem(&hp_flows, &index);
}

static __always_inline __u32 generation_of(const struct hp_flow *flow)
{
	return *(const volatile __u32 *)&flow->generation;
}

static __always_inline bool in_use(const struct hp_flow *flow)
{
	return flow->state >= HP_FLOW_NEW;
}

static __always_inline bool expired(const struct hp_flow *flow, __u64 now)
{
	__u32 row = flow->tuple[HP_REQUEST].protocol == HP_TCP ? HP_IDLE_TCP : HP_IDLE_UDP;
	__u64 limit = config.idle[row][flow->state & (HP_IDLE_STATES - 1)];

	/* Another CPU's clock may be a little ahead: signed. */
	return (__s64)(now - flow->last_used) > (__s64)limit;
}

static __always_inline enum lookup find_flow(const struct hp_tuple *tuple, __u64 now, struct hit *hit)
{
	const volatile struct hp_flow_ref *ref = bpf_map_lookup_elem(&hp_tuples, tuple);
	const struct hp_flow *flow;
	__u32 value;
	bool same;

	if (!ref)
		return LOOKUP_NONE;
	value = ref->flow;
	hit->index = value >> 1;
	hit->direction = value & 1;
	flow = flow_at(hit->index);
	if (!flow)
		return LOOKUP_NONE;
	hit->generation = generation_of(flow);
	barrier();
	same = same_tuple(&flow->tuple[hit->direction & 1], tuple) && in_use(flow);
	barrier();
	if (!same || generation_of(flow) != hit->generation)
		return LOOKUP_NONE;
	return expired(flow, now) ? LOOKUP_STALE : LOOKUP_FOUND;
}

/* Is the endpoint that the flow goes to no longer one of its service's? */
static __always_inline bool backend_gone(const struct hp_flow *flow)
{
	__u32 index = flow->backend;
	const struct hp_backend *backend = bpf_map_lookup_elem(&hp_backends, &index);

	return index && (!backend || backend->epoch != flow->backend_epoch);
}

static __always_inline void follow(struct hp_flow *flow, enum hp_direction direction, __u8 tcp_flags, __u64 now)
{
	flow->last_used = now;
	if (direction == HP_REPLY && flow->state == HP_FLOW_NEW)
		flow->state = HP_FLOW_ESTABLISHED;
	if (tcp_flags & TCP_FIN)
		flow->fin[direction & 1] = 1;
	if (tcp_flags & TCP_RST || (flow->fin[HP_REQUEST] && flow->fin[HP_REPLY]))
		flow->state = HP_FLOW_CLOSING;
}

static __always_inline void remove_tuple(const struct hp_tuple *tuple, __u32 index)
{
	const struct hp_flow_ref *ref = bpf_map_lookup_elem(&hp_tuples, tuple);

	if (ref && ref->flow >> 1 == index)
		bpf_map_delete_elem(&hp_tuples, tuple);
}

/*
 * Makes the element ours alone, if it is still at that generation, and removes what leads to it. Helpers can't be
 * called under a lock, so the lock guards the first step only; it decides who does the rest. Returns whether we do.
 */
__noinline int take(__u32 index, __u32 generation)
{
	struct hp_flow *flow = flow_at(index);
	__u8 was = HP_FLOW_OPENING;

	if (!flow)
		return false;
	bpf_spin_lock(&flow->lock);
	if (flow->generation == generation && flow->state != HP_FLOW_OPENING) {
		was = flow->state;
		flow->state = HP_FLOW_OPENING;
		flow->generation = generation + 1;
	}
	bpf_spin_unlock(&flow->lock);
	if (was == HP_FLOW_OPENING)
		return false;
	if (was != HP_FLOW_FREE) {
		remove_tuple(&flow->tuple[HP_REQUEST], index);
		remove_tuple(&flow->tuple[HP_REPLY], index);
	}
	return true;
}

static __always_inline void end_flow(const struct hit *hit)
{
	struct hp_flow *flow = flow_at(hit->index);

	if (flow && take(hit->index, hit->generation))
		flow->state = HP_FLOW_FREE;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/* The element at that place of the pod's chunks, counted through. */
static __always_inline __u32 element_at(const struct hp_interface *interface, __u32 place)
{
	/* The verifier wants the bound spelled out; places are always below it. */
	__u32 chunk = place / config.chunk_size & (HP_CHUNKS_PER_POD - 1);

	return interface->chunks[chunk] * config.chunk_size + place % config.chunk_size;
}

/* Gives the pod another chunk, unless another CPU has done so since there were `count`. Returns whether there is one.
 */
static __always_inline bool grow(struct hp_interface *interface, __u32 count)
{
	__u32 chunk;
	bool ours;

	if (count >= HP_CHUNKS_PER_POD || bpf_map_pop_elem(&hp_chunks, &chunk))
		return false;
	bpf_spin_lock(&interface->lock);
	ours = interface->chunk_count == count;
	if (ours) {
		interface->chunks[count] = (__u16)chunk;
		interface->chunk_count = count + 1;
		interface->hand = count * config.chunk_size;
	}
	bpf_spin_unlock(&interface->lock);
	if (!ours)
		bpf_map_push_elem(&hp_chunks, &chunk, 0);
	return true;
}

/*
 * Takes an element for the pod's new flow: a free or expired one, else one of a new chunk, else one that carries
 * nothing yet or nothing any more. NO_ELEMENT: all that was looked at is established, or other CPUs were faster.
 */
__noinline __u32 take_element(__u32 ifindex, __u64 now)
{
	struct hp_interface *interface = bpf_map_lookup_elem(&hp_interfaces, &ifindex);
	__u32 spare = NO_ELEMENT, spare_generation = 0;

	if (!interface)
		return NO_ELEMENT;
	for (__u32 pass = 0; pass < 2; pass++) {
		__u32 count = *(volatile __u32 *)&interface->chunk_count;
		__u32 total = count * config.chunk_size;
		__u32 hand = interface->hand;

		for (__u32 i = 0; i < FLOW_PROBES; i++) {
			/* Not counted on: the verifier would follow every value it can have. */
			__u32 place = (hand + i) % total;
			__u32 index = element_at(interface, place);
			const struct hp_flow *flow = flow_at(index);
			__u32 generation;

			if (!flow)
				return NO_ELEMENT;
			/* First: if it moves on while we look at the rest, it is not taken. */
			generation = generation_of(flow);
			barrier();
			if (flow->state == HP_FLOW_FREE || (in_use(flow) && expired(flow, now))) {
				if (!take(index, generation))
					continue;
				interface->hand = place + 1;
				return index;
			}
			if (spare == NO_ELEMENT && (flow->state == HP_FLOW_NEW || flow->state == HP_FLOW_CLOSING)) {
				spare = place;
				spare_generation = generation;
			}
		}
		interface->hand = hand + FLOW_PROBES;
		if (!grow(interface, count))
			break;
	}
	if (spare == NO_ELEMENT)
		return NO_ELEMENT;
	interface->hand = spare + 1;
	spare = element_at(interface, spare);
	return take(spare, spare_generation) ? spare : NO_ELEMENT;
}

/* Adds what leads to a flow; -EEXIST where something does already. */
static __always_inline int add_tuple(const struct hp_tuple *tuple, const struct hp_flow_ref *ref)
{
	/* Before 6.4 the upper half of what the helper leaves is anything: the map's own function returned an int. */
	return (int)bpf_map_update_elem(&hp_tuples, tuple, ref, BPF_NOEXIST);
}

/*
 * Claims the place of the replies, which is what clashes: with another frontend's flow to the same endpoint, with a
 * direct connection, or with the request itself. The newcomer then gets another source port.
 */
__noinline int claim_reply(__u32 index)
{
	struct hp_flow_ref ref = {.flow = index << 1 | HP_REPLY};
	struct hp_flow *flow = flow_at(index);
	struct hp_tuple *request, *reply;
	int error = -EEXIST;
	__u32 start;

	if (!flow)
		return -ENOENT;
	request = &flow->tuple[HP_REQUEST];
	reply = &flow->tuple[HP_REPLY];
	start = hash(request, config.seed);
	for (__u32 i = 0; i < PORT_PROBES && error == -EEXIST; i++) {
		if (i)
			reply->dport =
				bpf_htons((__u16)(PORT_FIRST + ((start + i * PORT_STRIDE) & 0xffff) % PORT_COUNT));
		if (same_tuple(request, reply) || (flow->backend && bpf_map_lookup_elem(&hp_direct, reply)))
			continue;
		error = add_tuple(reply, &ref);
	}
	return error;
}

/* Claims both directions' places. */
static __always_inline enum hp_reason claim_places(const struct hp_flow *flow, __u32 index)
{
	struct hp_flow_ref ref = {.flow = index << 1 | HP_REQUEST};
	int error = claim_reply(index);

	if (error)
		return error == -EEXIST ? HP_REASON_PORTS_TAKEN : HP_REASON_TUPLES_FULL;
	error = add_tuple(&flow->tuple[HP_REQUEST], &ref);
	if (!error)
		return HP_REASON_NONE;
	bpf_map_delete_elem(&hp_tuples, &flow->tuple[HP_REPLY]);
	return error == -EEXIST ? HP_REASON_FLOW_CONTENDED : HP_REASON_TUPLES_FULL;
}

/* Opens a flow from the packet to the target; on success the hit is the packet's, as if it had been found. */
static __noinline enum hp_reason open_flow(const struct hp_tuple *request, const struct target *target, __u64 now,
					   struct hit *hit)
{
	bool hairpin = target->backend && same_address(&target->address, &request->src);
	__u32 ifindex = request->ifindex;
	struct hp_flow *flow;
	enum hp_reason reason;

	if (!bpf_map_lookup_elem(&hp_interfaces, &ifindex))
		return HP_REASON_NO_INTERFACE;
	hit->index = take_element(ifindex, now);
	hit->direction = HP_REQUEST;
	flow = flow_at(hit->index);
	if (!flow)
		return HP_REASON_FLOWS_FULL;
	hit->generation = generation_of(flow);

	flow->tuple[HP_REQUEST] = *request;
	flow->tuple[HP_REPLY] = *request; /* protocol, interface */
	flow->tuple[HP_REPLY].src = target->address;
	/* The pod drops packets that claim to come from itself: a hairpin's client is known to it by the frontend. */
	flow->tuple[HP_REPLY].dst = hairpin ? request->dst : request->src;
	flow->tuple[HP_REPLY].sport = target->port;
	flow->tuple[HP_REPLY].dport = request->sport;
	flow->last_used = flow->opened = now;
	flow->backend = target->backend;
	flow->backend_epoch = target->epoch;
	flow->service = target->service;
	flow->flags = hairpin ? HP_FLOW_HAIRPIN : 0;
	flow->fin[HP_REQUEST] = flow->fin[HP_REPLY] = 0;
	__builtin_memset(flow->mac, 0, sizeof(flow->mac));

	reason = claim_places(flow, hit->index);
	barrier();
	flow->state = reason ? HP_FLOW_FREE : HP_FLOW_NEW;
	return reason;
}

/*
 * A pod's connection straight to an endpoint takes the place of its replies. Returns whether it is free; if a flow has
 * it, the connection needs another source port. The note comes before the look, as a flow that opens at the same moment
 * claims before it looks: at least one of the two sees the other.
 */
static __noinline bool note_direct(const struct hp_tuple *request, __u64 now)
{
	struct hp_tuple reply = reversed(request);
	struct hp_direct direct = {.last_used = now};
	struct hit hit = {};

	bpf_map_update_elem(&hp_direct, &reply, &direct, BPF_ANY);
	if (find_flow(&reply, now, &hit) != LOOKUP_FOUND)
		return true;
	bpf_map_delete_elem(&hp_direct, &reply);
	return false;
}

#endif
