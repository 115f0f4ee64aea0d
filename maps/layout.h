/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the BPF programs and userspace agree on: keys and values of every map. Plain C, included by both sides.
 *
 * Addresses are 16 bytes in network order, IPv4 as ::ffff:a.b.c.d (RFC 4291, 2.5.5.2), so that both families live in
 * the same maps. Ports are in network order, everything else in the machine's. Keys have no hidden padding and their
 * explicit padding is zero.
 *
 * A change to anything here raises HP_LAYOUT_VERSION; tests/check/layout compares this file's BTF with layout.golden.
 */
#ifndef HAIRPIN_LAYOUT_H
#define HAIRPIN_LAYOUT_H

#include <linux/bpf.h>
#include <linux/types.h>

#define HP_LAYOUT_VERSION 1

/* IPPROTO_* of the protocols that are translated (IANA protocol numbers). */
#define HP_TCP 6
#define HP_UDP 17

struct hp_addr {
  __be32 word[4]; /* IPv4: 0, 0, htonl(0xffff), address */
};

/*
 * A packet's five-tuple at one pod's veth, as it is on the wire there, and that veth's index in the node's namespace.
 * With the index in the key, a forged source address or a pod that inherits an address meets no flow of another pod.
 */
struct hp_tuple {
  struct hp_addr src;
  struct hp_addr dst;
  __be16 sport;
  __be16 dport;
  __u32 ifindex;
  __u8 protocol; /* HP_TCP, HP_UDP */
  __u8 pad[3];
};

/* ---- frontends: the gate, addresses that are looked at any further ------------------------------------------- */

enum hp_role {
  HP_ROLE_FRONTEND = 1, /* some service has this address */
  HP_ROLE_ENDPOINT = 2, /* some service has an endpoint with this address */
};

struct hp_gate {
  __u32 roles; /* HP_ROLE_*, or-ed */
};

/* ---- services: frontend -> endpoint slots --------------------------------------------------------------------- */

struct hp_frontend {
  struct hp_addr address;
  __be16 port;
  __u8 protocol;
  __u8 pad;
};

enum hp_kind {
  HP_KIND_CLUSTER_IP = 1,
};

/*
 * Where a frontend's endpoints are. One 64-bit word, read and written whole, so that a packet meets the service before
 * or after a change and never between. From the low end:
 *
 *   slot base     24 bits   index of the first of its slots
 *   slot count    20 bits   0: no endpoint, refuse
 *   generation    12 bits   every one of its slots carries the same
 *   reserved       8 bits   zero
 */
struct hp_service {
  __u64 slots;
  __u32 service; /* id, key of names */
  __u8 kind;     /* enum hp_kind */
  __u8 pad[3];
};

#define HP_SLOT_BASE_BITS 24
#define HP_SLOT_COUNT_BITS 20
#define HP_SLOT_GENERATION_BITS 12

static inline __attribute__((always_inline)) __u64 hp_slots_pack(__u32 base, __u32 count, __u32 generation) {
  return (__u64)base | (__u64)count << HP_SLOT_BASE_BITS |
         (__u64)generation << (HP_SLOT_BASE_BITS + HP_SLOT_COUNT_BITS);
}

static inline __attribute__((always_inline)) __u32 hp_slots_base(__u64 slots) {
  return (__u32)(slots & ((1U << HP_SLOT_BASE_BITS) - 1));
}

static inline __attribute__((always_inline)) __u32 hp_slots_count(__u64 slots) {
  return (__u32)(slots >> HP_SLOT_BASE_BITS & ((1U << HP_SLOT_COUNT_BITS) - 1));
}

static inline __attribute__((always_inline)) __u32 hp_slots_generation(__u64 slots) {
  return (__u32)(slots >> (HP_SLOT_BASE_BITS + HP_SLOT_COUNT_BITS) & ((1U << HP_SLOT_GENERATION_BITS) - 1));
}

/* One of a frontend's endpoint slots. Eight bytes, so that it is read whole as well. */
struct hp_slot {
  __u32 backend; /* index into backends */
  __u32 generation;
};

/* ---- backends: an endpoint as one service has it ---------------------------------------------------------------- */

enum hp_backend_state {
  HP_BACKEND_FREE = 0,
  HP_BACKEND_ACTIVE = 1,      /* takes new flows */
  HP_BACKEND_TERMINATING = 2, /* keeps its flows, takes new ones only if nothing else is left */
};

/*
 * Index 0 is never used: a flow with backend 0 goes to where it was dialled (a direct flow whose source port had to
 * change). A flow lives as long as the epoch that it was opened in: to end all flows to a backend, its epoch is raised.
 */
struct hp_backend {
  struct hp_addr address;
  __be16 port;
  __u8 protocol;
  __u8 state;    /* enum hp_backend_state */
  __u32 service; /* id, key of names */
  __u32 epoch;
};

/* ---- flows ------------------------------------------------------------------------------------------------------ */

enum hp_direction {
  HP_REQUEST = 0, /* from the client */
  HP_REPLY = 1,   /* from the endpoint */
};

/* tuples: which flow a packet belongs to. Both directions lead to the one flow that holds the state. */
struct hp_flow_ref {
  __u32 flow; /* index into flows << 1 | enum hp_direction; one word, read whole */
};

enum hp_flow_state {
  HP_FLOW_FREE = 0,
  HP_FLOW_OPENING = 1,     /* claimed by a program that is still filling it */
  HP_FLOW_NEW = 2,         /* no reply yet */
  HP_FLOW_ESTABLISHED = 3, /* replies seen */
  HP_FLOW_CLOSING = 4,     /* FIN both ways, or RST */
};

#define HP_FLOW_HAIRPIN 1 /* hp_flow.flags: client and endpoint are the same pod */

/*
 * A flow's two tuples say it all: a request leaves as the reverse of the reply's tuple, a reply as the reverse of the
 * request's. Who reuses an element takes the lock, raises the generation and removes both tuples first.
 */
struct hp_flow {
  struct bpf_spin_lock lock;
  __u32 generation;
  struct hp_tuple tuple[2]; /* by enum hp_direction, as each arrives at its hook */
  __u64 last_used;          /* ns since boot, CLOCK_MONOTONIC */
  __u64 opened;             /* ns since boot, CLOCK_MONOTONIC */
  __u32 backend;
  __u32 backend_epoch;
  __u32 service; /* id, key of names; 0: direct */
  __u8 state;    /* enum hp_flow_state */
  __u8 flags;    /* HP_FLOW_* */
  __u8 fin[2];   /* FIN seen, by enum hp_direction; a byte each: two CPUs may write them at once */
  __u8 mac[6];   /* the endpoint's, where it is switched on the client's bridge; else zero */
  __u8 pad[2];
};

#define HP_END_FLOWS_MAX 64 /* elements that one run of the program end_flows looks at */

/* direct: connections of pods straight to an endpoint, by the tuple of their replies. Their places are taken. */
struct hp_direct {
  __u64 last_used; /* ns since boot, CLOCK_MONOTONIC */
};

/* ---- interfaces: the pods' veths ----------------------------------------------------------------------------------
 */

/*
 * The flow table is cut into HP_CHUNKS chunks. A pod starts with one and takes more as it needs them, up to
 * HP_CHUNKS_PER_POD; flows are only ever reused within the pod's own chunks.
 */
#define HP_CHUNKS 512
#define HP_CHUNKS_PER_POD 32

struct hp_interface {
  struct bpf_spin_lock lock; /* guards chunk_count and chunks */
  __u32 bridge;              /* ifindex of the bridge that it is a port of; 0: routed */
  __u32 hand;                /* where the search for a reusable flow goes on, in flows, over all chunks */
  __u32 chunk_count;
  __u16 chunks[HP_CHUNKS_PER_POD]; /* chunk n holds flows n * chunk size to (n + 1) * chunk size - 1 */
};

/* ---- settings: .rodata, fixed while the programs are loaded ---------------------------------------------------------
 */

/* Rows and columns of hp_settings.idle. */
enum hp_idle {
  HP_IDLE_TCP,
  HP_IDLE_UDP,
  HP_IDLE_PROTOCOLS,
  HP_IDLE_STATES = 8, /* enum hp_flow_state, rounded up to a power of two */
};

struct hp_settings {
  __u32 seed;          /* of hash(), the same as hp_config.seed */
  __u32 chunk_size;    /* flows in one chunk of the flow table */
  __u32 redirect_peer; /* bool: bpf_redirect_peer into the pod, else bpf_redirect out of its veth */
  __u32 pad;
  __u64 idle[HP_IDLE_PROTOCOLS][HP_IDLE_STATES]; /* how long a flow in that state may be idle, in ns */
};

/* ---- names, config ------------------------------------------------------------------------------------------------
 */

#define HP_NAME_SIZE 128 /* two DNS labels of 63 characters (RFC 1123), a slash, a zero byte */

struct hp_name {
  char name[HP_NAME_SIZE]; /* "namespace/name", zero-terminated, zero-filled */
};

enum hp_mode {
  HP_MODE_ENABLED = 1,
};

struct hp_config {
  __u32 layout_version;
  __u32 mode;         /* enum hp_mode */
  __u32 seed;         /* of the tuple hash; drawn at first load, kept by later ones */
  __u32 agent_pid;    /* of the agent that started last, in its own pid namespace; 0: none yet */
  __u32 agent_synced; /* bool: that agent's first complete sync is in the maps, and the pods are attached */
};

#endif
