/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_PANIC_H
#define MST_BASE_PANIC_H

#include <stddef.h>

/* A broken invariant. The hook is the one thing a pure machine may call out to: the service and the
 * tests install one that prints the last trace lines and aborts, the library one that poisons the
 * handle. Never returns. */
_Noreturn void mst_panic(const char *file, int line, const char *what);

/* Stays on in release builds: the executable form of what the code believes. */
#define MST_ASSERT(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            mst_panic(__FILE__, __LINE__, #condition);                                             \
        }                                                                                          \
    } while (0)

/* The object that `member` of it lies in. */
#define MST_CONTAINER(pointer, type, member)                                                       \
    ((type *)(void *)((char *)(void *)(pointer)-offsetof(type, member)))

/* Likewise of what is only looked at. */
#define MST_CONTAINER_CONST(pointer, type, member)                                                 \
    ((const type *)(const void *)((const char *)(const void *)(pointer)-offsetof(type, member)))

static inline void *mst_container(void *pointer, size_t offset)
{
    return pointer ? (char *)pointer - offset : NULL;
}

/* MST_CONTAINER, and NULL of NULL. */
#define MST_CONTAINER_OR_NULL(pointer, type, member)                                               \
    ((type *)mst_container(pointer, offsetof(type, member)))

#endif
