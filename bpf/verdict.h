/* SPDX-License-Identifier: GPL-2.0 */
/* What becomes of a packet, and the one place where that turns into the numbers that tc and tcx know. */
#ifndef HAIRPIN_BPF_VERDICT_H
#define HAIRPIN_BPF_VERDICT_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "bpf/config.h"

enum hp_verdict {
	VERDICT_PASS,	   /* on to the next program and to the stack, translated or not */
	VERDICT_TO_SENDER, /* back into the pod that it came from */
	VERDICT_DROP,
};

/* Why; also the index into hp_counters. */
enum hp_reason {
#define HP_REASON(enumerator, name, text) enumerator,
#include "maps/reasons.def"
#undef HP_REASON
	HP_REASON_COUNT,
};

static __always_inline int redirect_to_sender(struct __sk_buff *skb)
{
	/* What the pod's own stack and the node's qdiscs left on the packet means nothing on its second way in. */
	skb->mark = 0;
	if (!config.redirect_peer)
		return (int)bpf_redirect(skb->ifindex, 0);
	/*
	 * On a bridge the frame was for the bridge's MAC, so the packet may be marked as another host's.
	 * Before 6.15 redirect_peer scrubs nothing, and the pod's IP layer would drop it.
	 */
	bpf_skb_change_type(skb, 0 /* PACKET_HOST, linux/if_packet.h */);
	return (int)bpf_redirect_peer(skb->ifindex, 0);
}

/* TCX_NEXT and TC_ACT_UNSPEC are both -1: one translation serves both hooks. */
static __always_inline int tc_code(struct __sk_buff *skb, enum hp_verdict verdict)
{
	switch (verdict) {
	case VERDICT_PASS:
		return TC_ACT_UNSPEC;
	case VERDICT_TO_SENDER:
		return redirect_to_sender(skb);
	case VERDICT_DROP:
		return TC_ACT_SHOT;
	}
	return TC_ACT_UNSPEC;
}

#endif
