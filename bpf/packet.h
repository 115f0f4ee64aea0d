/* SPDX-License-Identifier: GPL-2.0 */
/* Reading: from an Ethernet frame to struct packet, once, for everybody else. */
#ifndef HAIRPIN_BPF_PACKET_H
#define HAIRPIN_BPF_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "maps/layout.h"

#define IP_FRAGMENT_MASK 0x3fff /* more-fragments bit and offset (RFC 791, 3.1) */
#define L3_OFFSET ETH_HLEN

/* Byte 13 of the TCP header (RFC 9293, 3.1). */
enum tcp_flag {
	TCP_FIN = 0x01,
	TCP_SYN = 0x02,
	TCP_RST = 0x04,
	TCP_ACK = 0x10,
};

struct packet {
	struct hp_tuple tuple;
	__u32 l4_length; /* TCP or UDP header and payload, as the IP header claims it */
	__u16 l4;	 /* offset of the TCP or UDP header; the IP header is at L3_OFFSET */
	bool ipv6;
	__u8 tcp_flags; /* enum tcp_flag, or-ed; UDP: 0 */
};

static __always_inline void *at(struct __sk_buff *skb, __u32 offset, __u32 length)
{
	void *data = (void *)(long)skb->data;

	return data + offset + length <= (void *)(long)skb->data_end ? data + offset : NULL;
}

/*
 * Direct access reaches only what is linear. A pod's packet nearly always is; pull what we need when it is not.
 * Invalidates packet pointers.
 */
static __always_inline bool linear(struct __sk_buff *skb, __u32 length)
{
	return at(skb, 0, length) || bpf_skb_pull_data(skb, length) == 0;
}

/* A length field of zero means what it says, but for GSO packets beyond 64 KiB ("BIG TCP", 6.3 for IPv4). */
static __always_inline __u32 ip_length(const struct __sk_buff *skb, __be16 field)
{
	if (!field && skb->len > 0xffff)
		return skb->len - L3_OFFSET;
	return bpf_ntohs(field);
}

static __always_inline void map_ipv4(struct hp_addr *to, __be32 from)
{
	to->word[0] = 0;
	to->word[1] = 0;
	to->word[2] = bpf_htonl(0xffff);
	to->word[3] = from;
}

/* Each reader fills its part of the packet and returns false for what is not translated: it passes as it is. */

static __always_inline bool read_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	struct iphdr *ip;
	__u32 header, length;

	if (!linear(skb, L3_OFFSET + sizeof(*ip)))
		return false;
	ip = at(skb, L3_OFFSET, sizeof(*ip));
	if (!ip || ip->version != 4 || ip->ihl < 5 || ip->frag_off & bpf_htons(IP_FRAGMENT_MASK))
		return false;
	header = ip->ihl * 4;
	length = ip_length(skb, ip->tot_len);
	if (length < header)
		return false;
	packet->ipv6 = false;
	packet->l4 = (__u16)(L3_OFFSET + header);
	packet->l4_length = length - header;
	packet->tuple.protocol = ip->protocol;
	map_ipv4(&packet->tuple.src, ip->saddr);
	map_ipv4(&packet->tuple.dst, ip->daddr);
	return true;
}

static __always_inline bool is_mapped(const struct hp_addr *address)
{
	return (address->word[0] | address->word[1] | (address->word[2] ^ bpf_htonl(0xffff))) == 0;
}

static __always_inline bool read_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	struct ipv6hdr *ip;

	if (!linear(skb, L3_OFFSET + sizeof(*ip)))
		return false;
	ip = at(skb, L3_OFFSET, sizeof(*ip));
	if (!ip || ip->version != 6)
		return false;
	packet->ipv6 = true;
	packet->l4 = L3_OFFSET + sizeof(*ip);
	packet->l4_length = ip_length(skb, ip->payload_len);
	packet->tuple.protocol = ip->nexthdr;
	__builtin_memcpy(&packet->tuple.src, &ip->saddr, sizeof(packet->tuple.src));
	__builtin_memcpy(&packet->tuple.dst, &ip->daddr, sizeof(packet->tuple.dst));
	/* On the wire the mapped form is nobody's address (RFC 4038, 4.2), and here it would be another's. */
	return !is_mapped(&packet->tuple.src) && !is_mapped(&packet->tuple.dst);
}

/* The verifier forgets the bounds of a value that went through memory: this one is below 256 anyway. */
static __always_inline __u32 l4_offset(const struct packet *packet)
{
	__u32 offset = packet->l4;

	barrier_var(offset);
	return offset & 0xff;
}

static __always_inline bool read_tcp(struct __sk_buff *skb, struct packet *packet)
{
	__u32 offset = l4_offset(packet);
	struct tcphdr *tcp;

	if (packet->l4_length < sizeof(*tcp) || !linear(skb, offset + sizeof(*tcp)))
		return false;
	tcp = at(skb, offset, sizeof(*tcp));
	if (!tcp || tcp->doff < 5)
		return false;
	packet->tuple.sport = tcp->source;
	packet->tuple.dport = tcp->dest;
	packet->tcp_flags = ((__u8 *)tcp)[13];
	return true;
}

static __always_inline bool read_udp(struct __sk_buff *skb, struct packet *packet)
{
	__u32 offset = l4_offset(packet);
	struct udphdr *udp;

	if (packet->l4_length < sizeof(*udp) || !linear(skb, offset + sizeof(*udp)))
		return false;
	udp = at(skb, offset, sizeof(*udp));
	if (!udp)
		return false;
	packet->tuple.sport = udp->source;
	packet->tuple.dport = udp->dest;
	return true;
}

/* The addresses: all that the gate needs. */
static __always_inline bool read_l3(struct __sk_buff *skb, struct packet *packet)
{
	__builtin_memset(packet, 0, sizeof(*packet));
	if (skb->vlan_present)
		return false;
	packet->tuple.ifindex = skb->ifindex;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return read_ipv4(skb, packet);
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return read_ipv6(skb, packet);
	return false;
}

/* The ports, once the gate has let the addresses in. */
static __always_inline bool read_l4(struct __sk_buff *skb, struct packet *packet)
{
	switch (packet->tuple.protocol) {
	case HP_TCP:
		return read_tcp(skb, packet);
	case HP_UDP:
		return read_udp(skb, packet);
	default:
		return false;
	}
}

static __always_inline struct hp_tuple reversed(const struct hp_tuple *tuple)
{
	struct hp_tuple reverse = *tuple;

	reverse.src = tuple->dst;
	reverse.dst = tuple->src;
	reverse.sport = tuple->dport;
	reverse.dport = tuple->sport;
	return reverse;
}

/* No early outs: every branch here would multiply what the verifier has to walk through behind it. */

static __always_inline bool same_address(const struct hp_addr *a, const struct hp_addr *b)
{
	return ((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) | (a->word[2] ^ b->word[2]) |
		(a->word[3] ^ b->word[3])) == 0;
}

static __always_inline bool same_tuple(const struct hp_tuple *a, const struct hp_tuple *b)
{
	const __u32 *left = (const __u32 *)a, *right = (const __u32 *)b;
	__u32 difference = 0;

	for (__u32 i = 0; i < sizeof(*a) / sizeof(*left); i++)
		difference |= left[i] ^ right[i];
	return difference == 0;
}

#endif
