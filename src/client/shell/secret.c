/* SPDX-License-Identifier: Apache-2.0 */
/* Which secret a client has, and TLS for it. The bytes stay in memory for a moment only. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/shell/environment.h"
#include "client/shell/handle.h"
#include "net/address.h"
#include "net/secret.h"
#include "net/tls.h"

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

static muster_status read_it(const struct mst_lib_secret *secret, struct mst_secret *bytes,
                             struct muster_client *client, struct muster_error *why)
{
    if (secret->fd >= 0) {
        (void)snprintf(client->secret_name, sizeof(client->secret_name), "descriptor %d",
                       (int)secret->fd);
        return mst_secret_read_fd((int)secret->fd, bytes, why);
    }
    (void)snprintf(client->secret_name, sizeof(client->secret_name), "'%s'", secret->file);
    return mst_secret_read(secret->file, bytes, why);
}

/* What a file has, as that of the run that started this process, is there to be read again. */
static bool can_be_read_once(const struct mst_lib_secret *secret)
{
    return secret->fd >= 0 && lseek((int)secret->fd, 0, SEEK_CUR) < 0;
}

/* A pipe can be read once, and the descriptor may be closed. */
static muster_status keep(const struct mst_lib_secret *secret, const struct mst_secret *bytes,
                          struct muster_client *client, struct muster_error *why)
{
    if (secret->fd >= 0) {
        return mst_secret_share(bytes, &client->secret_fd, why);
    }
    client->secret_file = strdup(secret->file);
    return client->secret_file ? MUSTER_OK : mst_lib_fail(why, MUSTER_ENOMEM, "secret", NULL);
}

muster_status mst_lib_secret_use(const struct mst_lib_secret *secret, const char *addr,
                                 struct muster_client *client, struct muster_error *err)
{
    struct mst_secret bytes = {.size = 0};
    struct muster_error why = {0};
    muster_status status;

    client->insecure = secret->insecure;
    client->secret_ask = *secret;
    client->secret_ask.file = NULL;
    if (secret->file && *secret->file) {
        client->secret_given = strdup(secret->file);
        if (!client->secret_given) {
            return mst_lib_fail(err, MUSTER_ENOMEM, "open", NULL);
        }
        client->secret_ask.file = client->secret_given;
    }
    if (!mst_lib_secret_given(secret) || !mst_addresses_speak_tcp(addr)) {
        return MUSTER_OK; /* the user's own socket needs none */
    }
    status = read_it(secret, &bytes, client, &why);
    if (status == MUSTER_OK && (secret->keep || can_be_read_once(secret))) {
        status = keep(secret, &bytes, client, &why);
    }
    if (status == MUSTER_OK) {
        status = mst_tls_context_new(&client->tls, MST_TLS_CLIENT, &bytes, &why);
    }
    mst_secret_wipe(&bytes);
    return status == MUSTER_OK ? status : mst_lib_refuse(err, "open", "%s", why.text);
}

muster_status mst_lib_secret_tls(struct muster_client *client, enum mst_tls_side side,
                                 struct mst_tls_context **out, struct muster_error *err)
{
    struct mst_lib_secret ask = client->secret_ask;
    struct mst_secret bytes = {.size = 0};
    struct muster_error why = {0};
    muster_status status;

    *out = NULL;
    if (!mst_lib_secret_given(&ask)) {
        return MUSTER_OK;
    }
    if (client->secret_fd >= 0) {
        ask.fd = client->secret_fd;
    }
    status = read_it(&ask, &bytes, client, &why);
    if (status == MUSTER_OK) {
        status = mst_tls_context_new(out, side, &bytes, &why);
    }
    mst_secret_wipe(&bytes);
    return status == MUSTER_OK ? status : mst_lib_refuse(err, "secret", "%s", why.text);
}
