/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/commands.h"
#include "muster/client.h"
#include "net/address.h"
#include "service/server/journal_folder.h"
#include "service/server/replica.h"
#include "service/server/service.h"

#define INHERITED_MAX 65536 /* descriptors looked for */

static void take_limits(const struct mst_cli *cli, struct mst_limits *limits)
{
    uint64_t *value = (uint64_t *)(void *)limits; /* in the order of the rows */

    for (size_t i = 0; i < mst_setting_count; i++) {
        if (mst_settings[i].scope == MST_SCOPE_LIMIT) {
            *value++ = (uint64_t)mst_cli_number(cli, mst_settings[i].name);
        }
    }
}

/* Cuts `list` at its commas; one address more than a service takes is found, to be refused. */
static uint32_t split(char *list, const char *addresses[MST_UV_ADDRESSES_MAX + 1])
{
    uint32_t count = 0;

    while (list && count <= MST_UV_ADDRESSES_MAX) {
        char *comma = strchr(list, ',');

        if (comma) {
            *comma++ = '\0';
        }
        if (*list) {
            addresses[count++] = list;
        }
        list = comma;
    }
    return count;
}

static bool announce(const struct mst_cli *cli, const struct mst_uv_service *service)
{
    const char *http = mst_uv_service_http(service);
    int fd = (int)mst_cli_number(cli, "ready_fd");

    if (mst_cli_typed(cli, "insecure") && mst_cli_number(cli, "insecure") != 0) {
        mst_cli_tell(
            "muster serve: warning: --insecure: any host that reaches %s can join, read and stop "
            "its jobs",
            mst_uv_service_address(service));
    }
    mst_cli_put("muster: serving on %s\n", mst_uv_service_address(service));
    if (*mst_cli_text(cli, "moved_to")) {
        mst_cli_put("muster: each client is sent on to %s\n", mst_cli_text(cli, "moved_to"));
    }
    if (http) {
        mst_cli_put("muster: health and metrics on %s%s\n", *http == 'u' ? "" : "http://", http);
    }
    (void)fflush(stdout);
    if (fd < 0) {
        return true;
    }
    if (dprintf(fd, "%s\n", http ? http : "") < 1) {
        (void)mst_cli_fail(cli, "--ready-fd %d: %s", fd, strerror(errno));
        return false;
    }
    close(fd);
    return true;
}

/* A secret in the environment is for processes that need one: a service started beside a single
 * program uses the socket of the user. MUSTER_INSECURE is a setting of clients: a service is opened
 * to other hosts only by the flag. */
static int take_access(const struct mst_cli *cli, bool tcp, struct mst_uv_service_config *config,
                       struct mst_secret *secret)
{
    bool typed = mst_cli_typed(cli, "secret_file") || mst_cli_typed(cli, "secret_fd");
    int code = MST_CLI_OK;

    *secret = (struct mst_secret){.size = 0};
    if (typed || tcp) {
        code = mst_cli_secret(cli, secret);
    }
    config->insecure = mst_cli_typed(cli, "insecure") && mst_cli_number(cli, "insecure") != 0;
    if (code == MST_CLI_OK && secret->size > 0) {
        config->secret = secret;
        if (config->insecure) {
            code = mst_cli_usage(cli, "--insecure and a secret contradict each other");
        }
    }
    return code;
}

/* The log of a service in the background, beside its socket. A service that stops in order removes
 * it; a killed or crashed one leaves its last lines. */
struct background {
    int ready; /* the parent waits for a byte here; -1: it is in the foreground */
    int log;   /* -1: none, as it has no socket */
    char path[MST_SOCKET_PATH_MAX];
};

/* In the runtime directory every file belongs to muster; elsewhere a file of that name may not. */
static bool lies_in_runtime_dir(const char *path)
{
    char folder[MST_SOCKET_PATH_MAX];

    return mst_socket_dir(folder, false, NULL) == MUSTER_OK &&
           strncmp(path, folder, strlen(folder)) == 0 &&
           strrchr(path, '/') == path + strlen(folder);
}

static bool open_log(const struct mst_cli *cli, struct background *background, const char *list)
{
    char first[MST_SOCKET_PATH_MAX + 8];

    (void)snprintf(first, sizeof first, "%.*s", (int)strcspn(list, ","), list);
    if (!mst_socket_log(first, background->path)) {
        return true;
    }
    if (lies_in_runtime_dir(background->path)) {
        (void)unlink(background->path); /* a service that had it may still remove its own */
    }
    background->log = open(background->path,
                           O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (background->log < 0) {
        (void)mst_cli_fail(cli, "cannot log in %s: %s%s", background->path, strerror(errno),
                           errno == EEXIST ? "; move it away, or name another socket" : "");
    }
    return background->log >= 0;
}

static void remove_log(const struct background *background)
{
    struct stat own, there;

    if (background->log >= 0 && fstat(background->log, &own) == 0 &&
        stat(background->path, &there) == 0 && own.st_dev == there.st_dev &&
        own.st_ino == there.st_ino) {
        (void)unlink(background->path);
    }
}

/* Stops using the output of the command that was called. */
static bool detach(const struct mst_cli *cli, struct background *background, const char *address)
{
    int ready = background->ready;
    int null;

    if (!open_log(cli, background, address)) {
        return false;
    }
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) {
        (void)mst_cli_fail(cli, "/dev/null: %s", strerror(errno));
        return false;
    }
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDOUT_FILENO);
    (void)dup2(background->log >= 0 ? background->log : null, STDERR_FILENO);
    (void)close(null);
    (void)!write(ready, "\n", 1); /* the parent may have ended */
    (void)close(ready);
    return true;
}

enum { REMOVES_NOTHING, REMOVES_JOURNAL, REMOVES_SECRET };

/* A run that is killed cannot clean up, so its service does at each end. A run that is to keep its
 * journal still owns it. The next run of that job uses the secret that it finds, once it owns the
 * journal. */
static void clear_up(const struct mst_cli *cli)
{
    int64_t what = mst_cli_number(cli, "end_removes");
    const char *journal = mst_cli_text(cli, "journal"), *secret = mst_cli_text(cli, "secret_file");

    secret = what == REMOVES_SECRET && *secret ? secret : NULL;
    if (what != REMOVES_NOTHING && *journal) {
        mst_journal_folder_remove(journal, secret);
    } else if (secret) {
        (void)unlink(secret);
    }
}

/* What the service names to its clients. */
static int take_named(const struct mst_cli *cli, struct mst_uv_service_config *config)
{
    const char *moved_to = mst_cli_text(cli, "moved_to");

    config->named = mst_cli_text(cli, "advertise");
    if (!*moved_to) {
        return MST_CLI_OK;
    }
    if (*config->named) {
        return mst_cli_usage(cli, "--moved-to and --advertise contradict each other");
    }
    if (config->journal.path || config->journal.record) {
        return mst_cli_usage(cli, "--moved-to: a service that serves no client has nothing to "
                                  "write: leave out --journal and --record");
    }
    config->named = moved_to;
    config->elsewhere = true;
    return MST_CLI_OK;
}

static int take_replica(const struct mst_cli *cli, const char *listens,
                        struct mst_uv_service_config *config, struct mst_uv_replica_config *out)
{
    struct muster_error err;

    out->addresses = mst_cli_text(cli, "replica");
    out->voters = (unsigned)mst_cli_number(cli, "replicas");
    if (*out->addresses && config->elsewhere) {
        return mst_cli_usage(cli, "--moved-to and --replica contradict each other");
    }
    out->run = config->job;
    out->secret = config->secret;
    out->lease_ns = config->lease_ns;
    out->path = config->journal.path;
    out->version = config->journal.version;
    out->sync = config->journal.sync;
    if (mst_uv_replica_config_check(out, listens, config->named, config->secret || config->insecure,
                                    &err) != MUSTER_OK) {
        return mst_cli_usage(cli, "%s", err.text);
    }
    config->journal.replica = *out->addresses ? out : NULL;
    return MST_CLI_OK;
}

/* What is taken as it is. */
static void take_settings(const struct mst_cli *cli, struct mst_uv_service_config *config)
{
    config->lease_ns = (uint64_t)mst_cli_number(cli, "lease") * NS_PER_MS;
    config->history = (uint64_t)mst_cli_number(cli, "history");
    config->straggler_percent = (uint64_t)mst_cli_number(cli, "straggler_percent");
    config->waiting_bytes_max = (uint64_t)mst_cli_number(cli, "waiting_bytes_max");
    config->log_level = (enum mst_level)mst_cli_number(cli, "log_level");
    config->log_json = mst_cli_number(cli, "log_format") != 0;
    config->http = mst_cli_text(cli, "http");
    config->job = mst_cli_text(cli, "job");
    config->kept = mst_cli_text(cli, "kept_run");
    config->buffered_bytes_max = (uint64_t)mst_cli_number(cli, "buffered_bytes_max");
    config->parent = mst_cli_number(cli, "parent") != 0;
    config->until_idle = mst_cli_number(cli, "until_idle") != 0;
    if (config->parent && !mst_cli_given(cli, "log_level")) {
        config->log_level = MST_WARN; /* stderr is that of the program */
    }
    config->journal.path = *mst_cli_text(cli, "journal") ? mst_cli_text(cli, "journal") : NULL;
    config->journal.version = muster_version();
    config->journal.record = *mst_cli_text(cli, "record") ? mst_cli_text(cli, "record") : NULL;
    config->journal.sync = mst_cli_number(cli, "sync") != 0;
    config->journal.go_on_when_full = mst_cli_number(cli, "journal_full") != 0;
    take_limits(cli, &config->limits);
}

static int serve(const struct mst_cli *cli, char *list, int ready)
{
    struct mst_uv_replica_config replica = {.self = ""};
    struct background background = {.ready = ready, .log = -1};
    const char *addresses[MST_UV_ADDRESSES_MAX + 1];
    struct mst_uv_service_config config = {.addresses = addresses};
    bool tcp = mst_addresses_speak_tcp(list);
    char listens[MST_UV_ADDRESSES_MAX * MST_ADDRESS_TEXT];
    struct mst_uv_service *service;
    struct mst_secret secret;
    struct muster_error err;
    muster_status status;
    int code;

    (void)snprintf(listens, sizeof listens, "%s", list);
    config.address_count = split(list, addresses);
    if (config.address_count == 0 || config.address_count > MST_UV_ADDRESSES_MAX) {
        return mst_cli_usage(cli, "--addr names 1 to %u addresses", MST_UV_ADDRESSES_MAX);
    }
    code = take_access(cli, tcp, &config, &secret);
    if (code != MST_CLI_OK) {
        return code;
    }
    take_settings(cli, &config);
    /* One that a program or a run starts, or that outlives its command, is no manager's. */
    config.notify = !config.parent && ready < 0 && mst_cli_number(cli, "ready_fd") < 0;
    if (config.journal.sync && !config.journal.path) {
        return mst_cli_usage(cli, "--sync needs a folder to write to: --journal DIR");
    }
    code = take_named(cli, &config);
    if (code == MST_CLI_OK) {
        code = take_replica(cli, listens, &config, &replica);
    }
    if (code != MST_CLI_OK) {
        mst_secret_wipe(&secret);
        return code;
    }
    status = mst_uv_service_open(&service, &config, &err);
    mst_secret_wipe(&secret);
    if (status != MUSTER_OK) {
        return mst_cli_fail_with(cli, &err);
    }
    if (announce(cli, service) &&
        (ready < 0 || detach(cli, &background, mst_uv_service_address(service)))) {
        code = mst_uv_service_run(service) ? MST_CLI_OK
               : config.journal.replica    ? MST_CLI_REPLICA_ENDED
                                           : MST_CLI_FAILED;
        if (code == MST_CLI_OK) {
            remove_log(&background);
        }
        if (mst_uv_service_dismissed(service) && code == MST_CLI_OK) { /* else the job goes on */
            clear_up(cli);
        }
    } else {
        code = MST_CLI_FAILED;
    }
    mst_uv_service_close(service);
    return code;
}

/* Closes the inherited descriptors, except the standard ones, which stay until the service can be
 * reached. */
static void leave_inherited(int keep)
{
    int most = (int)sysconf(_SC_OPEN_MAX);

    for (int fd = STDERR_FILENO + 1; fd < most && fd < INHERITED_MAX; fd++) {
        if (fd != keep) {
            (void)close(fd);
        }
    }
    (void)setsid();
}

/* The child serves; this process waits for its byte. */
static int serve_in_background(const struct mst_cli *cli, char *list)
{
    int ends[2];
    char word = 0;
    pid_t pid;
    int how = 0;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return mst_cli_fail(cli, "--background: %s", strerror(errno));
    }
    pid = fork();
    if (pid < 0) {
        return mst_cli_fail(cli, "--background: %s", strerror(errno));
    }
    if (pid == 0) {
        leave_inherited(ends[1]);
        return serve(cli, list, ends[1]);
    }
    (void)close(ends[1]);
    while (read(ends[0], &word, 1) < 0 && errno == EINTR) {
    }
    (void)close(ends[0]);
    if (word != 0) {
        return MST_CLI_OK;
    }
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(how) ? WEXITSTATUS(how) : MST_CLI_FAILED;
}

static int run(struct mst_cli *cli)
{
    char path[MST_SOCKET_PATH_MAX];
    struct muster_error err;
    char *list = NULL;
    int code;

    if (*mst_cli_text(cli, "addr")) {
        list = strdup(mst_cli_text(cli, "addr"));
    } else if (mst_socket_path(mst_cli_text(cli, "job"), path, true, &err) != MUSTER_OK) {
        return mst_cli_fail_with(cli, &err);
    } else if (asprintf(&list, "unix:%s", path) < 0) {
        list = NULL;
    }
    if (!list) {
        return mst_cli_fail(cli, "out of memory");
    }
    if (mst_cli_number(cli, "background") != 0) {
        code = serve_in_background(cli, list);
    } else {
        code = serve(cli, list, -1);
    }
    free(list);
    return code;
}

const struct mst_cli_command mst_cli_serve = {
    .name = "serve",
    .arguments = "",
    .summary = "the service: members, keys, rounds and watches of one or several jobs",
    .details = "Without --addr it listens on a socket of this user, under the job's name "
               "('default' without -j), where the other commands find it. Port 0 is any free port. "
               "For other machines it needs a secret (TCP connections are then TLS 1.3), or "
               "--insecure on the command line. SIGTERM and SIGINT stop it. With --journal a "
               "restarted service continues from the saved state, whatever ended this one.\n"
               "With --replica A,B,C three of these are one service: one leads and serves, and if "
               "its host dies another one does. Each has the same list and a folder of its own. At "
               "their first start the first of the list founds the group, once it has reached all "
               "others; a replica whose folder is new or was removed is added by the leader. One "
               "that lost the lead, or whose disk failed, ends with status 76: start it again.\n",
    .example = "  muster serve --job train --lease 30s\n",
    .scopes = MST_CLI_SCOPE(MST_SCOPE_SERVICE) | MST_CLI_SCOPE(MST_SCOPE_LIMIT),
    .finds_job = true,
    .run = run,
};
