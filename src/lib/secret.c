/* SPDX-License-Identifier: Apache-2.0 */
/* Which secret a client has, and TLS for it. The bytes stay in memory for a moment only. */
#include <stdio.h>

#include "io/secret.h"
#include "io/tls.h"
#include "lib/environment.h"
#include "lib/handle.h"

muster_status mst_lib_secret_find(struct mst_lib_secret *out,
                                  const struct muster_client_options *options,
                                  struct muster_error *err)
{
    int64_t insecure = 0;
    muster_status status;

    *out = (struct mst_lib_secret){.file = options->secret_file, .fd = -1};
    status = mst_lib_setting("insecure", &insecure, NULL, err);
    out->insecure = options->insecure || insecure != 0;
    if (status != MUSTER_OK || (out->file && *out->file)) {
        return status;
    }
    status = mst_lib_setting("secret_fd", &out->fd, NULL, err);
    out->file = out->fd < 0 ? mst_lib_setting_text("secret_file") : NULL;
    return status;
}

bool mst_lib_secret_given(const struct mst_lib_secret *secret)
{
    return secret->fd >= 0 || (secret->file && *secret->file);
}

static bool speaks_tcp(const struct mst_endpoints *endpoints)
{
    for (uint32_t i = 0; i < endpoints->count; i++) {
        if (endpoints->at[i].kind != MST_ADDRESS_UNIX) {
            return true;
        }
    }
    return false;
}

muster_status mst_lib_secret_use(const struct mst_lib_secret *secret,
                                 const struct mst_endpoints *endpoints,
                                 struct muster_client *client, struct muster_error *err)
{
    struct mst_secret bytes = {.size = 0};
    struct muster_error why = {0};
    muster_status status;

    if (!mst_lib_secret_given(secret) || !speaks_tcp(endpoints)) {
        return MUSTER_OK; /* the user's own socket needs none */
    }
    if (secret->fd >= 0) {
        (void)snprintf(client->secret_name, sizeof(client->secret_name), "descriptor %d",
                       (int)secret->fd);
        status = mst_secret_read_fd((int)secret->fd, &bytes, &why);
    } else {
        (void)snprintf(client->secret_name, sizeof(client->secret_name), "'%s'", secret->file);
        status = mst_secret_read(secret->file, &bytes, &why);
    }
    if (status == MUSTER_OK) {
        status = mst_tls_context_new(&client->tls, MST_TLS_CLIENT, &bytes, &why);
    }
    mst_secret_wipe(&bytes);
    return status == MUSTER_OK ? status : mst_lib_refuse(err, "open", why.text);
}
