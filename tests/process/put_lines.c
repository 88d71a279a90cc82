/* SPDX-License-Identifier: Apache-2.0 */

/* A client that writes what its stdin says, a line "KEY SIZE" at a time, and says of each what
 * became of it.
 *
 *   put_lines */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "muster/muster.h"

enum { VALUE_MAX = 1 << 20 };

int main(void)
{
    static char value[VALUE_MAX];
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    muster_client *client = NULL;
    struct muster_error err;
    char key[64], number[16];

    memset(value, 'v', sizeof value);
    options.role = MUSTER_ROLE_OBSERVER;
    if (muster_client_open(&client, &options, -1, &err) != MUSTER_OK) {
        (void)printf("%s\n", err.text);
        return 1;
    }
    (void)printf("open\n");
    (void)fflush(stdout);
    while (scanf("%63s %15s", key, number) == 2) {
        const size_t size = strtoul(number, NULL, 10);
        const struct muster_slice bytes = {value, size < sizeof value ? size : sizeof value};
        muster_status status = muster_key_put(client, key, bytes, NULL, -1, NULL, &err);

        (void)printf("%s %s\n", key, status == MUSTER_OK ? "kept" : err.text);
        (void)fflush(stdout);
    }
    muster_client_close(client);
    return 0;
}
