/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_HTTP_HOST_H
#define MST_SERVICE_SERVER_HTTP_HOST_H

#include <stdbool.h>

/* Whether a Host of a request is a numeric address, `localhost`, this machine's name or `given`
 * (NULL: none). A foreign web page may point its own host name at our port (DNS rebinding), and the
 * browser would let it read the answer. A numeric address belongs to no such page. */
bool mst_http_host_is_own(const char *host, const char *given);

#endif
