/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/nodes/hosts.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/job.h"
#include "launch/programs.h"
#include "launch/say.h"
#include "net/rendezvous.h"
#include "os/system.h"

#define FINISH_NS UINT64_C(3000000000) /* what an ssh still has to print, at the most */
#define SSH_WORDS_MAX 32u

extern char **environ;

/* ---- the file ---- */

struct reader {
    const char *path;
    unsigned line;
    const char *own; /* the name of this machine */
    bool here;       /* it is listed */
};

static int refuse_line(const struct reader *in, const char *why, const char *word)
{
    return mst_refuse(
        "--hostfile %s, line %u: %s '%s'; expected: HOST or HOST slots=N, a line each", in->path,
        in->line, why, word);
}

static int take_slots(struct mst_hosts *hosts, const struct reader *in, const char *word)
{
    char *end = NULL;
    unsigned long slots;

    if (strncmp(word, "slots=", 6) != 0) {
        return refuse_line(in, "an unknown word", word);
    }
    slots = isdigit((unsigned char)word[6]) ? strtoul(word + 6, &end, 10) : 0;
    if (slots < 1 || slots > MST_RUN_SIZE_MAX || *end != '\0') {
        return refuse_line(in, "no number of ranks", word);
    }
    if (hosts->slots != 0 && hosts->slots != slots) {
        return mst_refuse("--hostfile %s, line %u: %lu slots, and %" PRIu32
                          " on a line before: a run has as many ranks on each node",
                          in->path, in->line, slots, hosts->slots);
    }
    hosts->slots = (uint32_t)slots;
    return 0;
}

static int take_host(struct mst_hosts *hosts, struct reader *in, const char *word)
{
    struct mst_ssh_host *list;

    /* What begins with a dash would be a flag of ssh, and commas separate names elsewhere. */
    if (*word == '-' || strchr(word, ',') != NULL || strlen(word) >= sizeof list->name) {
        return refuse_line(in, "no name of a host", word);
    }
    for (uint32_t i = 0; i < hosts->count; i++) {
        if (strcmp(hosts->list[i].name, word) == 0) {
            return refuse_line(in, "a second time the host", word);
        }
    }
    if (mst_rendezvous_names(word, in->own) || strcmp(word, "localhost") == 0) {
        in->here = true;
        return 0;
    }
    list = realloc(hosts->list, (hosts->count + 1) * sizeof *list);
    if (list == NULL) {
        return mst_no_memory();
    }
    hosts->list = list;
    list[hosts->count] = (struct mst_ssh_host){.ssh = {.pidfd = -1}};
    (void)snprintf(list[hosts->count].name, sizeof list->name, "%s", word);
    hosts->count++;
    return 0;
}

static int take_line(struct mst_hosts *hosts, struct reader *in, char *line)
{
    static const char blanks[] = " \t\r\n";
    char *rest = NULL, *word;
    int code;

    line[strcspn(line, "#")] = '\0';
    word = strtok_r(line, blanks, &rest);
    if (word == NULL) {
        return 0;
    }
    code = take_host(hosts, in, word);
    while (code == 0 && (word = strtok_r(NULL, blanks, &rest)) != NULL) {
        code = take_slots(hosts, in, word);
    }
    return code;
}

static int take_file(struct mst_hosts *hosts, struct reader *in)
{
    FILE *file = fopen(in->path, "re");
    char *line = NULL;
    size_t room = 0;
    int code = 0;

    if (file == NULL) {
        return mst_refuse("--hostfile %s: %s", in->path, strerror(errno));
    }
    while (code == 0 && getline(&line, &room, file) >= 0) {
        in->line++;
        code = take_line(hosts, in, line);
    }
    if (code == 0 && ferror(file)) {
        code = mst_refuse("--hostfile %s: it cannot be read", in->path);
    }
    free(line);
    (void)fclose(file);
    return code;
}

int mst_hosts_read(struct mst_hosts *hosts, struct mst_run_options *options)
{
    char own[HOST_NAME_MAX + 1] = "";
    struct reader in = {.path = options->hostfile, .own = own};
    int code;

    (void)gethostname(own, sizeof own - 1);
    code = take_file(hosts, &in);
    if (code != 0) {
        return code;
    }
    if (!in.here) {
        return mst_refuse(
            "--hostfile %s: this machine (%s) is not in it; node 0 runs here: add it, "
            "or start the run on one of the hosts",
            in.path, own);
    }
    if (options->nodes_max == 0) {
        options->nodes_min = options->nodes_max = hosts->count + 1;
    }
    if (options->nodes_max > hosts->count + 1) {
        return mst_refuse("--nnodes: %" PRIu32 " nodes, but %s lists %" PRIu32 " host%s",
                          options->nodes_max, in.path, hosts->count + 1,
                          hosts->count == 0 ? "" : "s");
    }
    hosts->count = options->nodes_max - 1;
    options->nproc = options->nproc != 0 ? options->nproc : hosts->slots;
    return 0;
}

void mst_hosts_free(struct mst_hosts *hosts)
{
    free(hosts->list);
    hosts->list = NULL;
    hosts->count = 0;
}

/* ---- the command ---- */

static bool is_one_of(const char *variable, const char *const *names)
{
    for (; *names != NULL; names++) {
        size_t size = strlen(*names);

        if (strncmp(variable, *names, size) == 0 && variable[size] == '=') {
            return true;
        }
    }
    return false;
}

/* Settings are those of the whole run; what describes this node, or how it reaches the service, is
 * not. */
static bool passes(const struct mst_run_options *options, const char *variable)
{
    static const char *const always[] = {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV",
                                         NULL};
    static const char *const never[] = {
        "MUSTER_ADDR",      "MUSTER_JOB",          "MUSTER_JOIN",
        "MUSTER_NODE_RANK", "MUSTER_NNODES",       "MUSTER_NPROC",
        "MUSTER_LISTEN",    "MUSTER_HOSTFILE",     "MUSTER_SSH",
        "MUSTER_PASS_ENV",  "MUSTER_HTTP",         "MUSTER_RECORD",
        "MUSTER_REPORT",    "MUSTER_SECRET_FILE",  "MUSTER_SECRET_FD",
        "MUSTER_INSECURE",  "MUSTER_RUNTIME_DIR",  "MUSTER_STATE_DIR",
        "MUSTER_REQUEUE",   "MUSTER_REQUEUE_FILE", NULL};
    char name[256];

    if (strncmp(variable, "MUSTER_", 7) == 0) {
        return !is_one_of(variable, never);
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(variable, "="), variable);
    return is_one_of(variable, always) || mst_rendezvous_listed(options->pass_env, name) ||
           mst_rendezvous_listed(options->exported, name);
}

/* For the shell of the host. */
static bool write_command(struct mst_words *line, const struct mst_run_job *job, uint32_t number)
{
    const struct mst_run_options *options = job->options;
    char folder[PATH_MAX], program[PATH_MAX], text[16];
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);

    if (getcwd(folder, sizeof folder) == NULL || size <= 0) {
        return false;
    }
    program[size] = '\0';
    *line = (struct mst_words){.text = "cd", .size = 2};
    mst_words_add(line, folder);
    mst_words_append(line, " && exec env");
    for (char *const *variable = environ; *variable != NULL; variable++) {
        if (passes(options, *variable)) {
            mst_words_add(line, *variable);
        }
    }
    mst_words_add(line, program);
    mst_words_add(line, "run");
    mst_words_add(line, "--join");
    mst_words_add(line, job->service.listen);
    mst_words_append(line, options->insecure ? " --insecure" : " --secret-fd 0");
    mst_words_add(line, "-j");
    mst_words_add(line, job->name);
    for (char *const *flag = options->node_flags; *flag != NULL; flag++) {
        mst_words_add(line, *flag);
    }
    (void)snprintf(text, sizeof text, "%" PRIu32, number);
    mst_words_add(line, "--node-rank");
    mst_words_add(line, text);
    mst_programs_words(options, line);
    return mst_words_fit(line);
}

/* ---- the processes ---- */

static int open_secret(const struct mst_nodes *nodes)
{
    char path[32];

    if (nodes->secret_fd < 0 && nodes->secret[0] == '\0') {
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    /* Anew: each reads it from its beginning. */
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", nodes->secret_fd);
    return open(nodes->secret_fd >= 0 ? path : nodes->secret, O_RDONLY | O_CLOEXEC);
}

/* Its lines have their labels. They go the way of the ranks' here: a terminal has rows for what is
 * not at its end. */
static int open_output(struct mst_run_job *job, int to)
{
    struct mst_output_stream *stream;

    return mst_output_open(job->output, MST_OUTPUT_NO_LABEL, to, (struct mst_output_file){.fd = -1},
                           &stream);
}

static void close_open(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* 0, or an error number. */
static int start(struct mst_run_job *job, struct mst_ssh_host *host, char **ssh, size_t words)
{
    struct mst_spawn spawn = {.program = ssh[0], .arguments = ssh, .environment = environ};
    pid_t pid = 0;
    int error;

    ssh[words] = host->name;
    spawn.input = open_secret(&job->nodes);
    spawn.out = spawn.input < 0 ? -1 : open_output(job, STDOUT_FILENO);
    spawn.error = spawn.out < 0 ? -1 : open_output(job, STDERR_FILENO);
    error = spawn.error < 0 ? errno : mst_spawn_tied(&spawn, SIGTERM, false, &pid);
    close_open(spawn.input);
    close_open(spawn.out);
    close_open(spawn.error);
    if (error == 0) {
        mst_child_adopt(&host->ssh, pid);
    }
    return error;
}

int mst_hosts_start(struct mst_run_job *job)
{
    struct mst_hosts *hosts = job->options->hosts;
    struct mst_words *line = malloc(sizeof *line);
    char *copy = strdup(job->options->ssh), *rest = NULL;
    char *ssh[SSH_WORDS_MAX + 3] = {NULL};
    size_t words = 0;
    int code = 0, error;

    if (line == NULL || copy == NULL) {
        code = mst_no_memory();
    }
    for (char *word = copy; code == 0 && words < SSH_WORDS_MAX; words++) {
        ssh[words] = strtok_r(word, " ", &rest);
        if (ssh[words] == NULL) {
            break;
        }
        word = NULL;
    }
    if (code == 0 && words == 0) {
        code = mst_refuse("--ssh: a command is expected, as in --ssh 'ssh -p 2222'");
    }
    for (uint32_t i = 0; code == 0 && i < hosts->count; i++) {
        if (!write_command(line, job, i + 1)) {
            code = mst_refuse("--hostfile: the command for %s is longer than %zu bytes",
                              hosts->list[i].name, sizeof line->text - 2);
            break;
        }
        ssh[words + 1] = line->text;
        error = start(job, &hosts->list[i], ssh, words);
        if (error != 0) {
            code = mst_refuse("'%s' for %s cannot be started: %s", ssh[0], hosts->list[i].name,
                              strerror(error));
        }
    }
    for (uint32_t i = 0; code != 0 && i < hosts->count; i++) {
        mst_child_signal(&hosts->list[i].ssh, SIGTERM);
    }
    free(copy);
    free(line);
    return code;
}

static bool has_joined(struct mst_run_job *job, uint32_t number)
{
    bool seen;

    mst_shared_lock(&job->shared);
    seen = job->nodes.peers[number].seen;
    mst_shared_unlock(&job->shared);
    return seen;
}

static void tell_how(struct mst_hosts *hosts, uint32_t number, int status)
{
    bool killed = WIFSIGNALED(status);

    (void)snprintf(hosts->how, sizeof hosts->how, "node %" PRIu32 " (%s) did not join: %s %d",
                   number, hosts->list[number - 1].name,
                   killed ? "its ssh was killed by signal" : "ssh ended with status",
                   killed ? WTERMSIG(status) : WEXITSTATUS(status));
}

bool mst_hosts_too_few(const struct mst_hosts *hosts, uint32_t needed)
{
    return hosts->count + 1 - hosts->failed < needed;
}

void mst_hosts_look(struct mst_run_job *job)
{
    struct mst_hosts *hosts = job->options->hosts;

    for (uint32_t i = 0; hosts != NULL && i < hosts->count; i++) {
        struct mst_ssh_host *host = &hosts->list[i];
        int status = 0;

        if (host->ssh.pid == 0 || !mst_child_await(&host->ssh, 0, -1)) {
            continue;
        }
        (void)mst_child_reap(&host->ssh, &status);
        if (has_joined(job, i + 1) || job->end.how != MST_GOES_ON) {
            continue;
        }
        tell_how(hosts, i + 1, status);
        mst_say("%s", hosts->how);
        hosts->failed++;
        if (mst_hosts_too_few(hosts, job->options->nodes_min)) {
            job->end.launch_code = MST_EXIT_LAUNCHER;
            mst_ending_begin(job, MST_ENDS_FAILED, SIGTERM);
        }
    }
}

void mst_hosts_finish(struct mst_hosts *hosts)
{
    uint64_t until_ns = mst_system_now_ns() + FINISH_NS;

    for (uint32_t i = 0; hosts != NULL && i < hosts->count; i++) {
        if (hosts->list[i].ssh.pid != 0) {
            (void)mst_child_finish(&hosts->list[i].ssh, until_ns, -1, &(int){0});
        }
    }
}
