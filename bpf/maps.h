/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Map definitions. Sizes of the maps that hp_config's limits govern are set by the loader; the ones here only have to
 * be loadable. What each map is for stands in maps/catalogue.cpp.
 */
#ifndef HAIRPIN_BPF_MAPS_H
#define HAIRPIN_BPF_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "maps/layout.h"
#include "bpf/verdict.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* only userspace writes: memory for what is there */
	__type(key, struct hp_addr);
	__type(value, struct hp_gate);
	__uint(max_entries, 1);
} hp_frontends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* only userspace writes: memory for what is there */
	__type(key, struct hp_frontend);
	__type(value, struct hp_service);
	__uint(max_entries, 1);
} hp_services SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct hp_slot);
	__uint(max_entries, 1);
} hp_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct hp_backend);
	__uint(max_entries, 1);
} hp_backends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct hp_tuple);
	__type(value, struct hp_flow_ref);
	__uint(max_entries, 1);
} hp_tuples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct hp_flow);
	__uint(max_entries, 1);
} hp_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__type(value, __u32);
	__uint(max_entries, HP_CHUNKS);
} hp_chunks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct hp_tuple);
	__type(value, struct hp_direct);
	__uint(max_entries, 1);
} hp_direct SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32); /* ifindex in the node's namespace */
	__type(value, struct hp_interface);
	__uint(max_entries, HP_CHUNKS);
} hp_interfaces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32); /* enum hp_reason */
	__type(value, __u64);
	__uint(max_entries, HP_REASON_COUNT);
} hp_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32); /* 0 */
	__type(value, struct hp_config);
	__uint(max_entries, 1);
} hp_config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32); /* service id */
	__type(value, struct hp_name);
	__uint(max_entries, 1);
} hp_names SEC(".maps");

#endif
