/* SPDX-License-Identifier: Apache-2.0 */
#include "service/page/page.h"

#include <string.h>

#include "service/page/parts.inc"

static const struct mst_page_part parts[] = {
    {"/", "text/html; charset=utf-8", page_html, sizeof page_html},
    {"/page.css", "text/css; charset=utf-8", page_css, sizeof page_css},
    {"/page.js", "text/javascript; charset=utf-8", page_js, sizeof page_js},
};

const struct mst_page_part *mst_page_part(const char *path)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(path, parts[i].path) == 0) {
            return &parts[i];
        }
    }
    return NULL;
}
