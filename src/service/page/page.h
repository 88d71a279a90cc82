/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_PAGE_PAGE_H
#define MST_SERVICE_PAGE_PAGE_H

/* The page at `/` of the HTTP port. It asks /status.json and /history.json every second and shows
 * them; it changes nothing, and needs nothing from another address. What comes from a rank is put
 * in as text, never as HTML. All of it is below 30 KiB. */

#include <stddef.h>

struct mst_page_part {
    const char *path, *type;
    const char *text; /* no NUL behind it */
    size_t size;
};

/* NULL: the page has no such part. */
const struct mst_page_part *mst_page_part(const char *path);

#endif
