/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_REPLICA_ENGINE_H
#define MST_SERVICE_REPLICA_ENGINE_H

/* The consensus, which is libraft's raft_step(): its pure core, without its disk, network and
 * clock. One version of it: who owns the memory of an event has changed after this one without a
 * new number (tests/unit/replica_engine_test.c fails then), and its way round a configuration in
 * the midst of a batch is ours to take. */

#include <raft.h>

#if !defined(RAFT_VERSION_NUMBER) || RAFT_VERSION_NUMBER != 2201
#error "replicas are written for libraft 0.22.1: tools/deps --replicas, or -DMUSTER_RAFT=OFF"
#endif

#endif
