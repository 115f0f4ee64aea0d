// SPDX-License-Identifier: GPL-2.0
/*
 * The two programs on the host side of every pod's veth. from_pod meets what the pod sends: it translates requests to
 * frontends, and hands the pod's requests to itself, and their replies, straight back. to_pod meets what the pod
 * receives: it undoes the translation in replies of other endpoints. A third, end_flows, is never attached: userspace
 * runs it to end flows by the same rules.
 */
#include "bpf/bridge.h"
#include "bpf/config.h"
#include "bpf/flow.h"
#include "bpf/packet.h"
#include "bpf/refuse.h"
#include "bpf/rewrite.h"
#include "bpf/service.h"
#include "bpf/verdict.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct hp_settings config = {};

/* What is to be done with a packet. */
enum decision {
	DECISION_PASS,
	DECISION_TRANSLATE, /* as its flow says */
	DECISION_REFUSE,
	DECISION_DROP,
};

/* Any other TCP packet belongs to a connection that others translate, or to nobody. */
static __always_inline bool opens_flow(const struct packet *packet)
{
	return packet->tuple.protocol != HP_TCP || (packet->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
}

/* A port used again after its connection closed, or whose endpoint went away, chooses again. */
static __always_inline bool begins_anew(const struct packet *packet, const struct hp_flow *flow, bool gone)
{
	return opens_flow(packet) && (gone || flow->state == HP_FLOW_CLOSING);
}

/* Where a packet without a flow goes that may open one. */
static __noinline enum decision find_target(const struct packet *packet, __u32 roles, __u64 now, struct target *target,
					    enum hp_reason *reason)
{
	if (!(roles & HP_ROLE_FRONTEND)) {
		/* Straight to an endpoint: ours only if a flow already has the place of the replies. */
		target->address = packet->tuple.dst;
		target->port = packet->tuple.dport;
		return note_direct(&packet->tuple, now) ? DECISION_PASS : DECISION_TRANSLATE;
	}
	switch (choose(&packet->tuple, target)) {
	case CHOICE_ENDPOINT:
		return DECISION_TRANSLATE;
	case CHOICE_NO_SERVICE:
		return DECISION_PASS;
	case CHOICE_NO_ENDPOINT:
		*reason = HP_REASON_NO_ENDPOINT;
		return DECISION_REFUSE;
	case CHOICE_CHANGED:
		*reason = HP_REASON_SERVICE_CHANGED;
		return DECISION_DROP;
	}
	return DECISION_PASS;
}

/* A packet to a frontend or an endpoint that has no flow. */
static __noinline enum decision begin(const struct packet *packet, __u32 roles, __u64 now, struct hit *hit,
				      enum hp_reason *reason)
{
	struct target target = {};
	enum decision decision;

	if (!opens_flow(packet))
		return DECISION_PASS;
	decision = find_target(packet, roles, now, &target, reason);
	if (decision != DECISION_TRANSLATE)
		return decision;
	*reason = open_flow(&packet->tuple, &target, now, hit);
	if (*reason == HP_REASON_NO_INTERFACE)
		return DECISION_PASS;
	return *reason ? DECISION_DROP : DECISION_TRANSLATE;
}

static __noinline enum decision decide(const struct packet *packet, __u32 roles, struct hit *hit,
				       enum hp_reason *reason)
{
	__u64 now = bpf_ktime_get_ns();
	enum lookup lookup = find_flow(&packet->tuple, now, hit);
	struct hp_flow *flow = lookup == LOOKUP_NONE ? NULL : flow_at(hit->index);

	if (flow) {
		bool gone = hit->direction == HP_REQUEST && backend_gone(flow);

		if (lookup == LOOKUP_FOUND && !begins_anew(packet, flow, gone)) {
			if (gone && !(packet->tcp_flags & TCP_RST)) { /* a reset is not answered (RFC 9293, 3.5.2) */
				*reason = HP_REASON_BACKEND_GONE;
				return DECISION_REFUSE;
			}
			follow(flow, hit->direction, packet->tcp_flags, now);
			return DECISION_TRANSLATE;
		}
		if (opens_flow(packet))
			end_flow(hit);
	}
	return begin(packet, roles, now, hit, reason);
}

/* Sends the packet on as its flow says: as the reverse of what the other direction looks like. */
static __noinline enum hp_verdict translate(struct __sk_buff *skb, const struct packet *packet, const struct hit *hit)
{
	struct hp_flow *flow = flow_at(hit->index);
	struct hp_tuple to;
	bool hairpin;

	if (!flow)
		return VERDICT_PASS;
	to = reversed(&flow->tuple[~hit->direction & 1]);
	hairpin = flow->flags & HP_FLOW_HAIRPIN;
	barrier();
	if (generation_of(flow) != hit->generation) {
		count(HP_REASON_FLOW_CONTENDED);
		return VERDICT_DROP;
	}
	if (rewrite(skb, packet, &to)) {
		if (hairpin && exchange_macs(skb))
			return VERDICT_TO_SENDER;
		if (!hairpin && (hit->direction == HP_REPLY || switch_to_endpoint(skb, flow, hit->index)))
			return VERDICT_PASS;
	}
	count(HP_REASON_REWRITE_FAILED);
	return VERDICT_DROP;
}

static __always_inline enum hp_verdict refuse(struct __sk_buff *skb, const struct packet *packet)
{
	if (make_refusal(skb, packet))
		return VERDICT_TO_SENDER;
	count(HP_REASON_REFUSAL_FAILED);
	return VERDICT_DROP;
}

static __always_inline enum hp_verdict handle_from_pod(struct __sk_buff *skb)
{
	enum hp_reason reason = HP_REASON_NONE;
	enum decision decision;
	struct packet packet;
	struct hit hit = {};
	__u32 roles;

	if (!read_l3(skb, &packet))
		return VERDICT_PASS;
	roles = gate(&packet.tuple.dst);
	if (!roles || !read_l4(skb, &packet))
		return VERDICT_PASS;
	decision = decide(&packet, roles, &hit, &reason);
	if (reason)
		count(reason);
	switch (decision) {
	case DECISION_PASS:
		return VERDICT_PASS;
	case DECISION_TRANSLATE:
		return translate(skb, &packet, &hit);
	case DECISION_REFUSE:
		return refuse(skb, &packet);
	case DECISION_DROP:
		return VERDICT_DROP;
	}
	return VERDICT_PASS;
}

static __always_inline enum hp_verdict handle_to_pod(struct __sk_buff *skb)
{
	struct packet packet;
	struct hp_flow *flow;
	struct hit hit = {};
	__u64 now;

	if (!read_l3(skb, &packet) || !gate(&packet.tuple.src) || !read_l4(skb, &packet))
		return VERDICT_PASS;
	now = bpf_ktime_get_ns();
	if (find_flow(&packet.tuple, now, &hit) != LOOKUP_FOUND || hit.direction != HP_REPLY)
		return VERDICT_PASS;
	flow = flow_at(hit.index);
	if (!flow || flow->flags & HP_FLOW_HAIRPIN)
		return VERDICT_PASS;
	follow(flow, hit.direction, packet.tcp_flags, now);
	return translate(skb, &packet, &hit);
}

SEC("tc")
int from_pod(struct __sk_buff *skb)
{
	return tc_code(skb, handle_from_pod(skb));
}

SEC("tc")
int to_pod(struct __sk_buff *skb)
{
	return tc_code(skb, handle_to_pod(skb));
}

/*
 * Ends the flows of the elements skb->cb[0] to cb[0] + cb[1] - 1, at most HP_END_FLOWS_MAX of them, and returns how
 * many there were. Run by BPF_PROG_TEST_RUN: userspace could not take an element from a program that is using it.
 */
SEC("tc")
int end_flows(struct __sk_buff *skb)
{
	__u32 first = skb->cb[0], count = skb->cb[1];
	int ended = 0;

	for (__u32 i = 0; i < HP_END_FLOWS_MAX && i < count; i++) {
		struct hp_flow *flow = flow_at(first + i);

		if (flow && in_use(flow) && take(first + i, generation_of(flow))) {
			flow->state = HP_FLOW_FREE;
			ended++;
		}
	}
	return ended;
}
