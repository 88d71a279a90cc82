/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_MUSTER_H
#define MUSTER_MUSTER_H

/* All headers of libmuster. */

#include "muster/assignment.h"
#include "muster/call.h"
#include "muster/client.h"
#include "muster/cluster.h"
#include "muster/heartbeat.h"
#include "muster/key.h"
#include "muster/member.h"
#include "muster/preempt.h"
#include "muster/restart.h"
#include "muster/round.h"
#include "muster/status.h"
#include "muster/watch.h"
#include "muster/worker.h"

#endif
