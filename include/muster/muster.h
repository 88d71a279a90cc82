/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_MUSTER_H
#define MUSTER_MUSTER_H

/* Everything of libmuster. */

#include "muster/client.h"
#include "muster/key.h"
#include "muster/member.h"
#include "muster/restart.h"
#include "muster/round.h"
#include "muster/status.h"
#include "muster/watch.h"

#endif
