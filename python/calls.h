/* SPDX-License-Identifier: Apache-2.0 */
/* A call of Python that waits, as one call of C: each way between the two costs as much as a system
 * call. Read by cdef.py and by the compiler. */
#ifndef MUSTER_PYTHON_CALLS_H
#define MUSTER_PYTHON_CALLS_H

#include "muster/muster.h"

/* Guards a client against its end: a call that was started under the lock outlives the client. */
typedef struct muster_python_gate muster_python_gate;

/* NULL: no memory. */
muster_python_gate *muster_python_gate_new(muster_client *client);
void muster_python_gate_free(muster_python_gate *gate);

/* From now on nothing is started: EINVAL. */
void muster_python_gate_shut(muster_python_gate *gate);

/* In a child after fork, in which no thread gives the lock back. */
void muster_python_gate_forked(muster_python_gate *gate);

/* One call, and what it came to. It is over when `call` is NULL. */
struct muster_python_box {
    muster_call *call;
    uint64_t revision; /* of what was read or written; APPEND: the size; DELETE_PREFIX: the count */
    int64_t sum;
    muster_value *value; /* of a read; its bytes are */
    const char *data;
    size_t size;
    struct muster_error err;
};

enum muster_python_kind {
    MUSTER_PYTHON_PUT,
    MUSTER_PYTHON_INSERT,
    MUSTER_PYTHON_CAS, /* number: the revision */
    MUSTER_PYTHON_APPEND,
    MUSTER_PYTHON_ADD, /* number: the delta */
    MUSTER_PYTHON_DELETE,
    MUSTER_PYTHON_DELETE_PREFIX,
    MUSTER_PYTHON_READ,
    MUSTER_PYTHON_AWAIT, /* data: the names, `number` strings, one behind the other */
    MUSTER_PYTHON_BARRIER
};

/* MORE: Python is to run its handlers of signals, and to wait again. */
int muster_python_wait(struct muster_python_box *out);

#endif
