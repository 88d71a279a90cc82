/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_DIGEST_H
#define MST_BASE_DIGEST_H

#include <stdint.h>

#include "base/slice.h"

/* FNV-1a, 64 bits: compares two states; no protection against forgery. */
#define MST_DIGEST_INIT 0xcbf29ce484222325u

uint64_t mst_digest_number(uint64_t digest, uint64_t number);
uint64_t mst_digest_slice(uint64_t digest, struct mst_slice bytes); /* with its length */

#endif
