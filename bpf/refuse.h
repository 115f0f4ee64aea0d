/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Saying no: the packet itself becomes a TCP reset, or an ICMP port unreachable, on its way back to the sender.
 *
 * Whether its checksum is complete or still CHECKSUM_PARTIAL cannot be seen from here, and cannot be changed: under
 * PARTIAL the kernel may later sum up from csum_start, the offset of the old L4 header, and write at csum_offset there.
 * So both refusals keep the L4 offset and are right either way.
 */
#ifndef HAIRPIN_BPF_REFUSE_H
#define HAIRPIN_BPF_REFUSE_H

#include <linux/icmpv6.h>
#include "bpf/rewrite.h"

#define IPV4_HEADER_MASK 63 /* a header is at most 60 long */
#define QUOTED_L4 8	    /* RFC 792: 64 bits of the original datagram; for UDP the whole header */
#define REFUSAL_TTL 64
/* linux/icmp.h, which cannot be included: it wants the C library's headers. */
#define ICMP_DEST_UNREACH 3
#define ICMP_PORT_UNREACH 3

/* Sequence number to window, the part of the TCP header that a reset changes. */
struct tcp_middle {
	__be32 seq;
	__be32 ack;
	__u8 offset; /* of the data, upper four bits */
	__u8 flags;  /* enum tcp_flag */
	__be16 window;
};

/*
 * RFC 9293, 3.5.2. Options and payload stay, as they may in a reset, so nothing but these twelve bytes enters the sum,
 * and bpf_l4_csum_replace knows that under PARTIAL they don't either.
 */
static __noinline bool make_reset(struct __sk_buff *skb, const struct packet *packet)
{
	__u32 offset = packet->l4 + offsetof(struct tcphdr, seq);
	struct hp_tuple back = reversed(&packet->tuple);
	struct tcp_middle old, new;

	if (bpf_skb_load_bytes(skb, offset, &old, sizeof(old)))
		return false;
	new = old;
	if (old.flags & TCP_ACK) {
		new.seq = old.ack;
		new.ack = 0;
		new.flags = TCP_RST;
	} else {
		new.seq = 0;
		new.ack = old.flags &TCP_SYN ? bpf_htonl(bpf_ntohl(old.seq) + 1) : old.seq;
		new.flags = TCP_RST | TCP_ACK;
	}
	__u32 difference = (__u32)bpf_csum_diff((__be32 *)&old, sizeof(old), (__be32 *)&new, sizeof(new), 0);

	return bpf_l4_csum_replace(skb, l4_checksum_offset(packet), 0, difference, 0) == 0 &&
	       bpf_skb_store_bytes(skb, offset, &new, sizeof(new), 0) == 0 && rewrite(skb, packet, &back);
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)((sum & 0xffff) + (sum >> 16));
}

/* ICMP and ICMPv6 begin alike. */
struct icmp_unreachable {
	__u8 type;
	__u8 code;
	__sum16 checksum;
	__be16 unused;
	__be16 filler;
};

/*
 * `filler` lies where a datagram's checksum was (csum_offset 6). Holding the pseudo header's sum (ICMPv4: none, 0), it
 * is what a later completion writes there, or its equal in ones' complement: the message is right before and after.
 */
static __always_inline struct icmp_unreachable port_unreachable(__u8 type, __u8 code, __u16 pseudo, __u64 quote)
{
	struct icmp_unreachable icmp = {.type = type, .code = code, .filler = pseudo};
	__u32 *words = (__u32 *)&icmp;

	icmp.checksum = (__sum16)~fold(quote + pseudo + (__u64)words[0] + words[1]);
	return icmp;
}

static __noinline bool make_unreachable_v4(struct __sk_buff *skb, const struct packet *packet)
{
	__u8 quote[IPV4_HEADER_MASK + 1 + QUOTED_L4] = {};
	/* A mask for the upper bound: of two comparisons the compiler makes one, from which verifiers learn neither. */
	__u32 header = (packet->l4 - L3_OFFSET) & IPV4_HEADER_MASK;
	struct icmp_unreachable icmp;
	struct iphdr *ip = (struct iphdr *)quote;

	if (header < sizeof(*ip))
		return false;
	if (bpf_skb_load_bytes(skb, L3_OFFSET, quote, header + QUOTED_L4))
		return false;
	icmp = port_unreachable(ICMP_DEST_UNREACH, ICMP_PORT_UNREACH, 0,
				(__u64)bpf_csum_diff(NULL, 0, (__be32 *)quote, header + QUOTED_L4, 0));
	if (bpf_skb_change_tail(skb, packet->l4 + sizeof(icmp) + header + QUOTED_L4, 0) ||
	    bpf_skb_store_bytes(skb, packet->l4, &icmp, sizeof(icmp), 0) ||
	    bpf_skb_store_bytes(skb, packet->l4 + sizeof(icmp), quote, header + QUOTED_L4, 0))
		return false;

	/* The outer header, as long as the original: its options give way to zeros (end of options, RFC 791, 3.1). */
	ip->tos = 0;
	ip->tot_len = bpf_htons((__u16)(header + sizeof(icmp) + header + QUOTED_L4));
	ip->id = 0;
	ip->frag_off = bpf_htons(0x4000); /* don't fragment */
	ip->ttl = REFUSAL_TTL;
	ip->protocol = IPPROTO_ICMP;
	ip->check = 0;
	ip->saddr = packet->tuple.dst.word[3];
	ip->daddr = packet->tuple.src.word[3];
	__builtin_memset(quote + sizeof(*ip), 0, sizeof(quote) - sizeof(*ip));
	ip->check = (__sum16)~fold((__u64)bpf_csum_diff(NULL, 0, (__be32 *)ip, sizeof(*ip), 0));
	return bpf_skb_store_bytes(skb, L3_OFFSET, quote, header, 0) == 0;
}

static __noinline bool make_unreachable_v6(struct __sk_buff *skb, const struct packet *packet)
{
	struct {
		struct ipv6hdr ip;
		__u8 l4[QUOTED_L4];
	} quote;
	struct icmp_unreachable icmp;
	__u32 length = sizeof(icmp) + sizeof(quote);
	__be32 tail[2] = {bpf_htonl(length), bpf_htonl(IPPROTO_ICMPV6)};
	__u16 pseudo; /* RFC 8200, 8.1 */

	if (bpf_skb_load_bytes(skb, L3_OFFSET, &quote, sizeof(quote)))
		return false;
	pseudo = fold((__u64)bpf_csum_diff(NULL, 0, (__be32 *)&packet->tuple.src, 2 * sizeof(packet->tuple.src), 0) +
		      (__u64)tail[0] + tail[1]);
	icmp = port_unreachable(ICMPV6_DEST_UNREACH, ICMPV6_PORT_UNREACH, pseudo,
				(__u64)bpf_csum_diff(NULL, 0, (__be32 *)&quote, sizeof(quote), 0));
	if (bpf_skb_change_tail(skb, packet->l4 + length, 0) ||
	    bpf_skb_store_bytes(skb, packet->l4, &icmp, sizeof(icmp), 0) ||
	    bpf_skb_store_bytes(skb, packet->l4 + sizeof(icmp), &quote, sizeof(quote), 0))
		return false;

	quote.ip.priority = 0;
	__builtin_memset(quote.ip.flow_lbl, 0, sizeof(quote.ip.flow_lbl));
	quote.ip.payload_len = bpf_htons((__u16)length);
	quote.ip.nexthdr = IPPROTO_ICMPV6;
	quote.ip.hop_limit = REFUSAL_TTL;
	__builtin_memcpy(&quote.ip.saddr, &packet->tuple.dst, sizeof(quote.ip.saddr));
	__builtin_memcpy(&quote.ip.daddr, &packet->tuple.src, sizeof(quote.ip.daddr));
	return bpf_skb_store_bytes(skb, L3_OFFSET, &quote.ip, sizeof(quote.ip), 0) == 0;
}

/* Turns the packet into its refusal, addressed to its sender. False: the kernel did not let us. */
static __always_inline bool make_refusal(struct __sk_buff *skb, const struct packet *packet)
{
	bool made;

	if (packet->tuple.protocol == HP_TCP)
		made = make_reset(skb, packet);
	else if (packet->ipv6)
		made = make_unreachable_v6(skb, packet);
	else
		made = make_unreachable_v4(skb, packet);
	return made && exchange_macs(skb);
}

#endif
