/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "fronts/shell/kinds.h"

#include <string.h>

#include "fronts/tcpstore/tcpstore.h"
#include "fronts/xla/xla.h"

/* The first bytes are those of HTTP/2's preface, and of TCPStore's first request, VALIDATE. */
static const struct mst_fronts_kind all[MST_FRONTS_MAX] = {{&mst_xla_front, 'P'},
                                                           {&mst_tcpstore_front, 0}};

const struct mst_fronts_kind *mst_fronts_kind(struct mst_slice name)
{
    for (unsigned i = 0; i < MST_FRONTS_MAX; i++) {
        if (mst_slice_is(name, all[i].front->name)) {
            return &all[i];
        }
    }
    return NULL;
}

static bool has(const struct mst_fronts_kind *kinds, unsigned count,
                const struct mst_fronts_kind *kind)
{
    for (unsigned i = 0; i < count; i++) {
        if (kinds[i].front == kind->front) {
            return true;
        }
    }
    return false;
}

bool mst_fronts_kinds(const char *list, struct mst_fronts_kind kinds[MST_FRONTS_MAX],
                      unsigned *count_out, struct mst_slice *wrong_out)
{
    *count_out = 0;
    if (strcmp(list, "none") == 0) {
        return true;
    }
    for (;;) {
        struct mst_slice name = mst_slice_of(list, strcspn(list, ","));
        const struct mst_fronts_kind *kind = mst_fronts_kind(name);

        if (kind == NULL) {
            *wrong_out = name;
            return false;
        }
        if (!has(kinds, *count_out, kind)) {
            kinds[(*count_out)++] = *kind;
        }
        list += name.size;
        if (*list == '\0') {
            return true;
        }
        list++;
    }
}
