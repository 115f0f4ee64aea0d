/* SPDX-License-Identifier: GPL-2.0 */
/* Writing: addresses, ports, checksums, MACs. The only place that does. */
#ifndef HAIRPIN_BPF_REWRITE_H
#define HAIRPIN_BPF_REWRITE_H

#include "bpf/packet.h"

static __always_inline __u32 l4_checksum_offset(const struct packet *packet)
{
	return packet->l4 +
	       (packet->tuple.protocol == HP_TCP ? offsetof(struct tcphdr, check) : offsetof(struct udphdr, check));
}

/* UDP: a sum of zero means "none" (RFC 768): it stays, and no sum may become it. */
static __always_inline __u64 l4_checksum_flags(const struct packet *packet)
{
	return packet->tuple.protocol == HP_UDP ? BPF_F_MARK_MANGLED_0 : 0;
}

static __always_inline bool exchange_macs(struct __sk_buff *skb)
{
	struct ethhdr *eth = at(skb, 0, sizeof(*eth));
	__u8 mac[ETH_ALEN];

	if (!eth)
		return false;
	__builtin_memcpy(mac, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, mac, ETH_ALEN);
	return true;
}

static __always_inline bool set_destination_mac(struct __sk_buff *skb, const __u8 *mac)
{
	struct ethhdr *eth = at(skb, 0, sizeof(*eth));

	if (!eth)
		return false;
	__builtin_memcpy(eth->h_dest, mac, ETH_ALEN);
	return true;
}

/* The pair of ports as it lies in the header. */
static __always_inline __be32 port_pair(const struct hp_tuple *tuple)
{
	struct {
		__be16 source, destination;
	} pair = {tuple->sport, tuple->dport};
	__be32 word;

	__builtin_memcpy(&word, &pair, sizeof(word));
	return word;
}

/* How much the two addresses' contribution to a checksum changes. */
static __always_inline __u32 address_difference(const struct hp_tuple *from, const struct hp_tuple *to, bool ipv6)
{
	if (ipv6) /* src and dst are neighbours in the tuple */
		return (__u32)bpf_csum_diff((__be32 *)&from->src, 2 * sizeof(from->src), (__be32 *)&to->src,
					    2 * sizeof(to->src), 0);
	__be32 old[2] = {from->src.word[3], from->dst.word[3]};
	__be32 new[2] = {to->src.word[3], to->dst.word[3]};
	return (__u32)bpf_csum_diff(old, sizeof(old), new, sizeof(new), 0);
}

static __always_inline bool write_ipv4_addresses(struct __sk_buff *skb, const struct hp_tuple *to)
{
	struct iphdr *ip = at(skb, L3_OFFSET, sizeof(*ip));

	if (!ip)
		return false;
	ip->saddr = to->src.word[3];
	ip->daddr = to->dst.word[3];
	return true;
}

static __always_inline bool write_ipv6_addresses(struct __sk_buff *skb, const struct hp_tuple *to, bool exchange)
{
	/*
	 * Under CHECKSUM_COMPLETE bpf_l4_csum_replace takes the addresses' difference out of skb->csum, which is right
	 * for IPv4, whose header sum makes up for it, and wrong for IPv6 (a flag came in 6.16): put it in here.
	 */
	return bpf_skb_store_bytes(skb, L3_OFFSET + offsetof(struct ipv6hdr, saddr), &to->src, 2 * sizeof(to->src),
				   exchange ? 0 : BPF_F_RECOMPUTE_CSUM) == 0;
}

static __always_inline bool write_ports(struct __sk_buff *skb, const struct packet *packet, __be32 ports)
{
	return bpf_skb_store_bytes(skb, packet->l4, &ports, sizeof(ports), 0) == 0;
}

/* Gives the packet the addresses and ports of `to`. False: the kernel refused, and the packet may be half written. */
static __noinline bool rewrite(struct __sk_buff *skb, const struct packet *packet, const struct hp_tuple *to)
{
	const struct hp_tuple *from = &packet->tuple;
	bool exchange = same_address(&from->src, &to->dst) && same_address(&from->dst, &to->src);
	__u32 checksum = l4_checksum_offset(packet);
	__u64 flags = l4_checksum_flags(packet);
	__be32 old_ports = port_pair(from), new_ports = port_pair(to);

	if (old_ports != new_ports) {
		if (bpf_l4_csum_replace(skb, checksum, old_ports, new_ports, flags | sizeof(new_ports)) ||
		    !write_ports(skb, packet, new_ports))
			return false;
	}
	/* An exchange leaves every sum as it is. */
	if (!exchange) {
		__u32 difference = address_difference(from, to, packet->ipv6);

		if (!packet->ipv6 &&
		    bpf_l3_csum_replace(skb, L3_OFFSET + offsetof(struct iphdr, check), 0, difference, 0))
			return false;
		if (bpf_l4_csum_replace(skb, checksum, 0, difference, flags | BPF_F_PSEUDO_HDR))
			return false;
	}
	if (packet->ipv6)
		return write_ipv6_addresses(skb, to, exchange);
	return write_ipv4_addresses(skb, to);
}

#endif
