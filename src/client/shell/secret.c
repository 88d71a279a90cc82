/* SPDX-License-Identifier: Apache-2.0 */
/* The secret of a client, and TLS with it. Its bytes are in memory only for a moment. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/shell/environment.h"
#include "client/shell/options.h"
#include "net/address.h"
#include "net/secret.h"
#include "net/tls.h"

muster_status mst_lib_secret_find(struct mst_lib_wanted *wanted, struct muster_error *err)
{
    struct mst_lib_secret *secret = &wanted->secret;
    int64_t insecure = 0;
    muster_status status = mst_lib_setting("insecure", &insecure, NULL, err);

    secret->insecure = wanted->options.insecure || insecure != 0;
    secret->file = wanted->options.secret_file;
    secret->fd = -1;
    if (status != MUSTER_OK || (secret->file && *secret->file)) {
        return status;
    }
    status = mst_lib_setting("secret_fd", &secret->fd, NULL, err);
    secret->file = secret->fd < 0 ? mst_lib_setting_text("secret_file") : NULL;
    return status;
}

bool mst_lib_secret_given(const struct mst_lib_secret *secret)
{
    return secret->fd >= 0 || (secret->file && *secret->file);
}

static muster_status read_secret(const struct mst_lib_secret *secret, struct mst_secret *bytes,
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

/* `share`: also as a descriptor that can be read again. */
static muster_status make_context(struct muster_client *client, const struct mst_lib_secret *secret,
                                  bool share, enum mst_tls_side side, struct mst_tls_context **out,
                                  struct muster_error *err, const char *what)
{
    struct mst_secret bytes = {.size = 0};
    struct muster_error why = {0};
    muster_status status = read_secret(secret, &bytes, client, &why);

    if (status == MUSTER_OK && share) {
        status = mst_secret_share(&bytes, &client->secret_fd, &why);
    }
    if (status == MUSTER_OK) {
        status = mst_tls_context_new(out, side, &bytes, &why);
    }
    mst_secret_wipe(&bytes);
    return status == MUSTER_OK ? status : mst_lib_refuse(err, what, "%s", why.text);
}

/* The user's own socket needs no secret, so none that can be read is no error. With one, the client
 * can follow its service to addresses of other hosts. A pipe can be read once: it is left to a
 * process that needs it. */
static void prepare_tcp(struct muster_client *client, const struct mst_lib_secret *secret)
{
    struct muster_error ignored;

    if (secret->fd < 0 || lseek((int)secret->fd, 0, SEEK_CUR) >= 0) {
        (void)make_context(client, secret, false, MST_TLS_CLIENT, &client->tls, &ignored, "open");
    }
}

muster_status mst_lib_secret_use(const struct mst_lib_secret *secret, const char *addr,
                                 struct muster_client *client, struct muster_error *err)
{
    bool share;

    client->insecure = secret->insecure;
    client->secret = *secret;
    client->secret.file = NULL;
    if (secret->file && *secret->file) {
        client->secret.file = client->secret_path = strdup(secret->file);
        if (!client->secret_path) {
            return mst_lib_fail(err, MUSTER_ENOMEM, "open", NULL);
        }
    }
    if (!mst_lib_secret_given(secret)) {
        return MUSTER_OK;
    }
    if (!mst_addresses_speak_tcp(addr)) {
        prepare_tcp(client, secret);
        return MUSTER_OK;
    }
    if (secret->keep && secret->fd < 0) {
        client->secret_file = client->secret_path;
    }
    /* A pipe can be read once, and the program may close the descriptor. */
    share = secret->fd >= 0 && (secret->keep || lseek((int)secret->fd, 0, SEEK_CUR) < 0);
    return make_context(client, secret, share, MST_TLS_CLIENT, &client->tls, err, "open");
}

muster_status mst_lib_secret_tls(struct muster_client *client, enum mst_tls_side side,
                                 struct mst_tls_context **out, struct muster_error *err)
{
    struct mst_lib_secret secret = client->secret;

    *out = NULL;
    if (!mst_lib_secret_given(&secret)) {
        return MUSTER_OK;
    }
    if (client->secret_fd >= 0) {
        secret.fd = client->secret_fd;
    }
    return make_context(client, &secret, false, side, out, err, "secret");
}
