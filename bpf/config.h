/* SPDX-License-Identifier: GPL-2.0 */
/* What userspace decides before loading and nothing changes afterwards: the verifier removes the code it switches off.
 */
#ifndef HAIRPIN_BPF_CONFIG_H
#define HAIRPIN_BPF_CONFIG_H

#include "maps/layout.h"

extern const volatile struct hp_settings config;

#endif
