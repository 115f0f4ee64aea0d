/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An endpoint on the client's own bridge is switched to, not routed: its replies are, as both are on one network, and
 * a stack that sees one direction only calls the rest of the connection invalid.
 */
#ifndef HAIRPIN_BPF_BRIDGE_H
#define HAIRPIN_BPF_BRIDGE_H

#include "bpf/flow.h"
#include "bpf/rewrite.h"

/* linux/socket.h has them for the kernel only. */
#define AF_INET 2
#define AF_INET6 10

static __always_inline bool known(const __u8 *mac)
{
	return mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5];
}

/* Asks the node's routes and neighbours, as seen from the bridge, and keeps the answer in the flow. */
__noinline int learn_mac(struct __sk_buff *skb, __u32 index)
{
	struct bpf_fib_lookup fib = {};
	__u32 ifindex = skb->ifindex;
	const struct hp_interface *interface = bpf_map_lookup_elem(&hp_interfaces, &ifindex);
	struct hp_flow *flow = flow_at(index);
	const struct hp_addr *client, *endpoint;

	if (!interface || !interface->bridge || !flow)
		return 0;
	client = &flow->tuple[HP_REPLY].dst;
	endpoint = &flow->tuple[HP_REPLY].src;
	fib.ifindex = interface->bridge;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		fib.family = AF_INET;
		fib.ipv4_src = client->word[3];
		fib.ipv4_dst = endpoint->word[3];
	} else {
		fib.family = AF_INET6;
		__builtin_memcpy(fib.ipv6_src, client, sizeof(fib.ipv6_src));
		__builtin_memcpy(fib.ipv6_dst, endpoint, sizeof(fib.ipv6_dst));
	}
	/* Not resolved yet: the stack takes this packet, and resolves. */
	if (bpf_fib_lookup(skb, &fib, sizeof(fib), 0) == BPF_FIB_LKUP_RET_SUCCESS && fib.ifindex == interface->bridge)
		__builtin_memcpy(flow->mac, fib.dmac, sizeof(flow->mac));
	return 0;
}

static __always_inline bool switch_to_endpoint(struct __sk_buff *skb, struct hp_flow *flow, __u32 index)
{
	__u8 mac[ETH_ALEN];

	if (!known(flow->mac))
		learn_mac(skb, index);
	__builtin_memcpy(mac, flow->mac, sizeof(mac));
	return !known(mac) || set_destination_mac(skb, mac);
}

#endif
