/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

#define FOUND_MAX 64
#define CONNECT_MS 5000 /* a service of this machine answers at once or is stuck */

static void list(const struct mst_socket_found *found, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (found[i].pid > 0) {
            mst_cli_tell("  %s (process %d)", found[i].job, (int)found[i].pid);
        } else {
            mst_cli_tell("  %s (does not answer)", found[i].job);
        }
    }
}

static int no_such_job(const struct mst_cli *cli, const char *job,
                       const struct mst_socket_found *found, size_t count)
{
    if (count == 0) {
        return mst_cli_fail(cli,
                            "no service for job '%s': none runs here (muster run and muster "
                            "serve start one; --addr names one elsewhere)",
                            job);
    }
    (void)mst_cli_fail(cli, "no service for job '%s'; these run:", job);
    list(found, count);
    return MST_CLI_FAILED;
}

/* One of several replicas of a service may send its clients on to another host, for which they need
 * the secret: then there is a file as well, with the addresses of all. */
static bool reach_socket(struct mst_cli_place *out, const char *path)
{
    const size_t size = (size_t)snprintf(out->addr, sizeof out->addr, "unix:%s", path);
    char beside[MST_SOCKET_PATH_MAX];
    struct mst_elsewhere all;

    if (mst_elsewhere_path(out->job, beside, false, NULL) == MUSTER_OK &&
        mst_elsewhere_read(beside, &all) != 0 && strncmp(all.addr, out->addr, size) == 0 &&
        all.addr[size] == ',') {
        out->elsewhere = all;
        (void)snprintf(out->addr, sizeof out->addr, "%s", all.addr);
    }
    return true;
}

static bool reach_elsewhere(struct mst_cli_place *out, const char *path)
{
    if (mst_elsewhere_read(path, &out->elsewhere) == 0) {
        return false;
    }
    (void)snprintf(out->addr, sizeof out->addr, "%s", out->elsewhere.addr);
    return true;
}

/* -j names the service too: its socket, or a file with its address elsewhere, has the name of its
 * job. */
static bool named(struct mst_cli_place *out)
{
    char path[MST_SOCKET_PATH_MAX];

    if (mst_socket_path(out->job, path, false, NULL) == MUSTER_OK && mst_socket_alive(path) != 0) {
        return reach_socket(out, path);
    }
    return mst_elsewhere_path(out->job, path, false, NULL) == MUSTER_OK &&
           reach_elsewhere(out, path);
}

bool mst_cli_runs_here(const char *job)
{
    struct mst_socket_found found[FOUND_MAX];
    struct mst_cli_place place = {.addr = ""};
    size_t count = 0;

    if (job != NULL) {
        (void)snprintf(place.job, sizeof place.job, "%s", job);
        return strlen(job) < sizeof place.job && named(&place);
    }
    return mst_socket_list(found, FOUND_MAX, &count, NULL) == MUSTER_OK && count > 0;
}

static int search(const struct mst_cli *cli, struct mst_cli_place *out)
{
    struct mst_socket_found found[FOUND_MAX];
    struct muster_error err;
    size_t count = 0;
    bool given = mst_cli_given(cli, "job");

    if (given && named(out)) {
        return MST_CLI_OK;
    }
    if (mst_socket_list(found, FOUND_MAX, &count, &err) != MUSTER_OK) {
        return mst_cli_fail_with(cli, &err);
    }
    if (given) {
        return no_such_job(cli, out->job, found, count);
    }
    if (count == 0) {
        return mst_cli_fail(cli, "no job runs here (muster run and muster serve start one; --addr "
                                 "names a service elsewhere)");
    }
    if (count > 1) {
        (void)mst_cli_fail(cli, "%zu%s jobs run here; -j selects one:", count,
                           count == FOUND_MAX ? " or more" : "");
        list(found, count);
        return MST_CLI_FAILED;
    }
    memcpy(out->job, found[0].job, sizeof out->job);
    if (!(found[0].elsewhere ? reach_elsewhere : reach_socket)(out, found[0].path)) {
        return no_such_job(cli, out->job, found, 0); /* it has just ended */
    }
    return MST_CLI_OK;
}

int mst_cli_locate(const struct mst_cli *cli, struct mst_cli_place *out)
{
    const char *addr = mst_cli_text(cli, "addr");
    const char *job = mst_cli_text(cli, "job");

    if (strlen(job) >= sizeof out->job || strlen(addr) >= sizeof out->addr) {
        return mst_cli_usage(cli, "the job's name or the address is too long");
    }
    out->elsewhere = (struct mst_elsewhere){0};
    (void)snprintf(out->job, sizeof out->job, "%s", job);
    (void)snprintf(out->addr, sizeof out->addr, "%s", addr);
    return *addr ? MST_CLI_OK : search(cli, out);
}

void mst_cli_forget_place(void)
{
    static const char *const names[] = {
        "MUSTER_INDEX", "MUSTER_SIZE",    "MUSTER_MIN_SIZE", "MUSTER_JOIN_WAIT",
        "MUSTER_GROW",  "MUSTER_PAGE_FD", "MUSTER_MAX_SIZE", "MUSTER_SIZE_MULTIPLE"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
}

void mst_cli_reach(const struct mst_cli *cli, const struct mst_cli_place *place,
                   struct muster_client_options *options)
{
    options->addr = place->addr;
    mst_cli_pass_secret(cli, options);
    if (options->secret_file == NULL && mst_cli_number(cli, "secret_fd") < 0) {
        options->secret_file = place->elsewhere.secret[0] != '\0' ? place->elsewhere.secret : NULL;
    }
    options->insecure = options->insecure || place->elsewhere.insecure;
}

int mst_cli_observe(const struct mst_cli *cli, muster_client **out, struct mst_cli_place *place)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err;
    int64_t connect_ms;
    int code = mst_cli_locate(cli, place);

    if (code != MST_CLI_OK) {
        return code;
    }
    mst_cli_forget_place();
    options.role = MUSTER_ROLE_OBSERVER;
    options.job = place->job;
    mst_cli_reach(cli, place, &options);
    connect_ms = mst_cli_left_ms(cli, CONNECT_MS);
    connect_ms = connect_ms < CONNECT_MS ? connect_ms : CONNECT_MS;
    if (muster_client_open(out, &options, connect_ms, &err) != MUSTER_OK) {
        return mst_cli_fail_with(cli, &err);
    }
    return MST_CLI_OK;
}
