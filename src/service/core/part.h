/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_PART_H
#define MST_SERVICE_CORE_PART_H

/* What every part of the core includes. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/panic.h"
#include "base/slice.h"
#include "base/table.h"
#include "base/tree.h"
#include "proto/limits.h"
#include "proto/reply.h"
#include "proto/request.h"
#include "service/core/alarm.h"
#include "service/core/core.h"
#include "service/core/index.h"
#include "service/core/named.h"

struct mst_core;
struct mst_host;
struct mst_job;
struct mst_key;
struct mst_link;
struct mst_member;
struct mst_prefix;
struct mst_round;
struct mst_session;
struct mst_staged;
struct mst_waiter;

#endif
