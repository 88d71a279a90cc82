/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_VECTOR_H
#define MST_PROTO_VECTOR_H

/* What ranks contribute to a round whose reduction works element by element: a vector of
 * little-endian numbers of 64 bits. */

#include <stdint.h>

#include "base/slice.h"
#include "proto/request.h"

enum { MST_VECTOR_ELEMENT = 8 }; /* bytes */

static inline bool mst_vector_reduced_by(enum mst_reduce reduce)
{
    return (reduce >= MST_REDUCE_MIN && reduce <= MST_REDUCE_SUM) ||
           (reduce >= MST_REDUCE_XOR && reduce <= MST_REDUCE_MAX_DOUBLE);
}

static inline bool mst_vector_of_doubles(enum mst_reduce reduce)
{
    return reduce >= MST_REDUCE_SUM_DOUBLE && reduce <= MST_REDUCE_MAX_DOUBLE;
}

static inline void mst_vector_put(unsigned char *vector, size_t element, int64_t number)
{
    unsigned char *at = vector + element * MST_VECTOR_ELEMENT;

    for (unsigned i = 0; i < MST_VECTOR_ELEMENT; i++) {
        at[i] = (unsigned char)((uint64_t)number >> (8 * i));
    }
}

/* An element beyond the end of the vector is 0. */
static inline int64_t mst_vector_at(struct mst_slice vector, size_t element)
{
    const unsigned char *at = (const unsigned char *)vector.data + element * MST_VECTOR_ELEMENT;
    uint64_t number = 0;

    if (vector.size < (element + 1) * MST_VECTOR_ELEMENT) {
        return 0;
    }
    for (unsigned i = 0; i < MST_VECTOR_ELEMENT; i++) {
        number |= (uint64_t)at[i] << (8 * i);
    }
    return (int64_t)number;
}

#endif
