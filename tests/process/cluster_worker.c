/* SPDX-License-Identifier: Apache-2.0 */
/* A worker with one function for each thing that a function may do, well or badly. Each is offered
 * inline, as a child's (child.NAME), and the commands as sh. Settings: those of a worker, and
 *
 *   CW_ONLY=NAME,...  offers nothing else
 *   CW_VERSION=N      of all functions; 1
 *   CW_HOLD=DIR       where marks are left and looked for
 *   CW_THREADS=1      several inline functions at once
 *
 * It says "ready #INDEX INCARNATION PID" on stdout, and at the end "served STATUS TEXT". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "muster/muster.h"
#include "muster/worker.h"

static char index_text[32];

/* ---- arguments ---- */

static size_t word(muster_task *task, size_t at, char *room, size_t size)
{
    const struct muster_part *parts;
    size_t count = muster_task_parts(task, &parts);
    size_t length = 0;

    if (at < count) {
        length = parts[at].size < size - 1 ? parts[at].size : size - 1;
        if (length > 0) {
            memcpy(room, parts[at].data, length);
        }
    }
    room[length] = '\0';
    return length;
}

static int64_t number(muster_task *task, size_t at)
{
    char room[64];

    (void)word(task, at, room, sizeof(room));
    return strtoll(room, NULL, 10);
}

static muster_status give(muster_task *task, const char *text)
{
    return muster_task_add(task, text, strlen(text), 0);
}

static muster_status give_number(muster_task *task, int64_t value)
{
    char room[32];

    (void)snprintf(room, sizeof(room), "%" PRId64, value);
    return give(task, room);
}

/* True: stopped meanwhile. */
static bool rest(muster_task *task, int64_t ms)
{
    struct pollfd stop = {.fd = muster_task_cancel_fd(task), .events = POLLIN};

    struct timespec now;
    int64_t end;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + ms;
    for (int count = -1; count < 0;) { /* also when a signal of the worker's comes in between */
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        ms = end - (now.tv_sec * 1000 + now.tv_nsec / 1000000);
        count = poll(&stop, 1, ms > 0 ? (int)ms : 0);
        if (count >= 0) {
            return count > 0;
        }
    }
    return false;
}

/* A line in a file of CW_HOLD, so that a test can count what really ran. */
static void mark(const char *file, const char *text)
{
    const char *folder = getenv("CW_HOLD");
    char path[512];
    int fd;

    if (!folder) {
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", folder, file);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd >= 0) {
        (void)!write(fd, text, strlen(text));
        (void)close(fd);
    }
}

static bool is_marked(const char *file)
{
    const char *folder = getenv("CW_HOLD");
    char path[512];
    struct stat status;

    (void)snprintf(path, sizeof(path), "%s/%s", folder ? folder : "/nonexistent", file);
    return stat(path, &status) == 0;
}

/* libc's, but for a program on a file system that does not answer: which is a FIFO. */
__attribute__((visibility("default"))) int execve(const char *file, char *const argv[],
                                                  char *const envp[])
{
    struct stat status;

    if (stat(file, &status) == 0 && S_ISFIFO(status.st_mode)) {
        mark("exec", "x\n");
        (void)close(open(file, O_RDONLY));
    }
    return (int)syscall(SYS_execve, file, argv, envp);
}

/* libc's, but for a folder that takes long to be removed: until a file is there, if one is to be.
 */
__attribute__((visibility("default"))) int unlinkat(int folder, const char *name, int flags)
{
    if (is_marked("slow-removal")) {
        mark("removing", "x\n");
        for (int i = 0; i < 10000 && !is_marked("remove"); i++) { /* not longer than any test */
            (void)poll(NULL, 0, 5);
        }
    }
    return (int)syscall(SYS_unlinkat, folder, name, flags);
}

/* ---- functions ---- */

static muster_status nothing(muster_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return MUSTER_OK;
}

static muster_status add(muster_task *task, void *arg)
{
    (void)arg;
    return give_number(task, number(task, 0) + number(task, 1));
}

static muster_status echo(muster_task *task, void *arg)
{
    const struct muster_part *parts;
    size_t count = muster_task_parts(task, &parts);
    muster_status status = MUSTER_OK;

    (void)arg;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        status = muster_task_add(task, parts[i].data, parts[i].size, parts[i].type);
    }
    return status;
}

/* fail CODE TEXT; the text goes along as a part too. */
static muster_status fail(muster_task *task, void *arg)
{
    char text[1100];

    (void)arg;
    (void)word(task, 1, text, sizeof(text));
    (void)!muster_task_add(task, text, strlen(text), MUSTER_PART_ERROR);
    return muster_task_fail(task, (int)number(task, 0), text);
}

/* Returns a status of muster's, without a word. */
static muster_status returns(muster_task *task, void *arg)
{
    (void)arg;
    return (muster_status)number(task, 0);
}

/* retry N: an error that another try may cure, until attempt N. */
static muster_status retry(muster_task *task, void *arg)
{
    char line[64];

    (void)arg;
    (void)snprintf(line, sizeof(line), "%" PRIu32 "\n", muster_task_attempt(task));
    mark("retry", line);
    if (muster_task_attempt(task) < number(task, 0)) {
        return muster_task_retry(task, 75, "not yet");
    }
    return give_number(task, muster_task_attempt(task));
}

/* sleep MS WHO: says when it begins. */
static muster_status sleeps(muster_task *task, void *arg)
{
    char line[128], who[64];

    (void)arg;
    (void)word(task, 1, who, sizeof(who));
    (void)snprintf(line, sizeof(line), "%s %s\n", index_text, who);
    mark("began", line);
    if (rest(task, number(task, 0))) {
        return muster_task_fail(task, 1, "stopped");
    }
    mark("ended", line);
    return give(task, index_text);
}

/* until FILE: goes on until it is there, or it is told to stop. */
static muster_status until(muster_task *task, void *arg)
{
    char line[64], file[64];

    (void)arg;
    (void)word(task, 0, file, sizeof(file));
    (void)snprintf(line, sizeof(line), "%s\n", index_text);
    mark("began", line); /* at once: others write there too */
    while (!is_marked(file)) {
        if (rest(task, 5)) {
            mark("stopped", "x\n");
            return muster_task_fail(task, 1, "stopped");
        }
    }
    mark("ended", "x\n");
    return give(task, index_text);
}

/* Looks at the flag, and never sleeps. */
static muster_status spin(muster_task *task, void *arg)
{
    (void)arg;
    mark("began", "spin\n");
    while (!muster_task_cancelled(task)) {
    }
    return MUSTER_ECANCELLED;
}

/* Never returns, whatever it is told. */
static muster_status deaf(muster_task *task, void *arg)
{
    volatile bool forever = true;

    (void)task;
    (void)arg;
    mark("began", "deaf\n");
    while (forever) {
        (void)poll(NULL, 0, 20);
    }
    return MUSTER_OK;
}

/* crash SIGNAL, or of a file that is there no more: crash SIGNAL UNLESS */
static muster_status crash(muster_task *task, void *arg)
{
    char unless[64];

    (void)arg;
    mark("crashed", "x\n");
    if (word(task, 1, unless, sizeof(unless)) > 0 && is_marked(unless)) {
        return give(task, "survived");
    }
    (void)signal((int)number(task, 0), SIG_DFL);
    (void)raise((int)number(task, 0));
    return MUSTER_OK;
}

static muster_status exits(muster_task *task, void *arg)
{
    (void)arg;
    exit((int)number(task, 0)); // NOLINT(concurrency-mt-unsafe)
}

/* Writes to stdout like any library does. */
static muster_status prints(muster_task *task, void *arg)
{
    char text[256];

    (void)arg;
    (void)word(task, 0, text, sizeof(text));
    (void)printf("%s\n", text);
    (void)fflush(stdout);
    return give(task, "printed");
}

/* Closes every descriptor it can see, or leaves a process behind that keeps them. */
static muster_status closes(muster_task *task, void *arg)
{
    (void)task;
    (void)arg;
    for (int fd = 3; fd < 1024; fd++) {
        (void)close(fd);
    }
    return MUSTER_OK;
}

/* A process that keeps all that is open, and lives until the file GONE is there. */
static muster_status orphan(muster_task *task, void *arg)
{
    pid_t pid = fork();
    char line[64];

    (void)task;
    (void)arg;
    if (pid == 0) {
        (void)setsid();
        while (!is_marked("gone")) {
            (void)poll(NULL, 0, 20);
        }
        _exit(0);
    }
    (void)snprintf(line, sizeof(line), "%d\n", (int)pid);
    mark("orphan", line);
    return give_number(task, pid);
}

/* big SIZE: a result of so many bytes. */
static muster_status big(muster_task *task, void *arg)
{
    size_t size = (size_t)number(task, 0);
    char *bytes = calloc(1, size + 1);
    muster_status status = bytes ? muster_task_add(task, bytes, size, 0) : MUSTER_ENOMEM;

    (void)arg;
    free(bytes);
    return status;
}

/* parts COUNT: a result of so many, each of a byte. */
static muster_status parts(muster_task *task, void *arg)
{
    muster_status status = MUSTER_OK;

    (void)arg;
    for (int64_t i = number(task, 0); i > 0 && status == MUSTER_OK; i--) {
        status = muster_task_add(task, "x", 1, 0);
    }
    return status;
}

/* starve SIZE: a result of so many bytes, in a process that can have no more memory then. */
static muster_status starve(muster_task *task, void *arg)
{
    muster_status status = big(task, arg);
    struct rlimit limit;

    (void)getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 1 << 20;
    (void)setrlimit(RLIMIT_AS, &limit);
    return status;
}

static muster_status sums(muster_task *task, void *arg)
{
    const struct muster_part *parts;
    size_t count = muster_task_parts(task, &parts);
    uint64_t sum = 0;

    (void)arg;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *bytes = parts[i].data;

        for (size_t j = 0; j < parts[i].size; j++) {
            sum = sum * 31 + bytes[j];
        }
    }
    return give_number(task, (int64_t)(sum >> 1));
}

/* Everything that a function can ask, one part each. */
static muster_status about(muster_task *task, void *arg)
{
    char room[64];
    int64_t left = muster_task_left_ms(task);

    (void)arg;
    (void)snprintf(room, sizeof(room), "%" PRIu32 " %" PRIu32, muster_task_worker(task),
                   muster_task_slot(task));
    if (give(task, room) != MUSTER_OK || give(task, muster_task_key(task)) != MUSTER_OK ||
        give(task, muster_task_host(task)) != MUSTER_OK) {
        return MUSTER_ENOMEM;
    }
    (void)snprintf(room, sizeof(room), "%" PRIu64 " %" PRIu32 " %" PRId64,
                   muster_task_closure(task), muster_task_attempt(task), left);
    if (give(task, room) != MUSTER_OK || give(task, index_text) != MUSTER_OK) {
        return MUSTER_ENOMEM;
    }
    return give_number(task, getpid());
}

static muster_status talks(muster_task *task, void *arg)
{
    char text[256];

    (void)arg;
    (void)word(task, 0, text, sizeof(text));
    muster_task_progress(task, 0.5, text);
    muster_task_log(task, text);
    return rest(task, number(task, 1)) ? MUSTER_ECANCELLED : MUSTER_OK;
}

/* chatter LINES FILE: so many of 1,000 bytes, and as often how far it is, once that file is there.
 */
static muster_status chatter(muster_task *task, void *arg)
{
    char text[1001] = "", file[64];

    (void)arg;
    (void)word(task, 1, file, sizeof(file));
    mark("began", "chatter\n");
    while (!is_marked(file)) {
        (void)rest(task, 5);
    }
    memset(text, 'x', sizeof(text) - 1);
    for (int64_t i = number(task, 0); i > 0; i--) {
        muster_task_log(task, text);
        muster_task_progress(task, 0.5, text);
    }
    mark("said", "x\n");
    return give(task, "all of it");
}

static muster_status state(muster_task *task, void *arg)
{
    char name[64];

    (void)arg;
    (void)word(task, 0, name, sizeof(name));
    return muster_task_state_failed(task, name, "connection reset");
}

/* ask NAME SOCKET FILE: asks the state server there again and again, until FILE is there ("":
 * once). Its answer; or that server has failed. */
static muster_status asks(muster_task *task, void *arg)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64], file[64], said[64];
    ssize_t size;

    (void)arg;
    (void)word(task, 0, name, sizeof(name));
    (void)word(task, 1, address.sun_path, sizeof(address.sun_path));
    (void)word(task, 2, file, sizeof(file));
    do {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        size = -1;
        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
            size = read(fd, said, sizeof(said) - 1);
        }
        (void)close(fd);
        if (size <= 0) {
            return muster_task_state_failed(task, name, "connection refused or reset");
        }
        if (rest(task, file[0] ? 5 : 0)) {
            return MUSTER_ECANCELLED;
        }
    } while (file[0] && !is_marked(file));
    return muster_task_add(task, said, (size_t)size, 0);
}

/* ---- per-worker values: a counter that begins at the builder's argument ---- */

static void destroy(void *object)
{
    mark("destroyed", "x\n");
    free(object);
}

static muster_status counter(muster_task *task, void *arg)
{
    int64_t *object = malloc(sizeof(*object));
    char line[64];

    (void)arg;
    if (!object) {
        return MUSTER_ENOMEM;
    }
    (void)snprintf(line, sizeof(line), "%s\n", index_text);
    mark("built", line);
    *object = number(task, 0);
    if (muster_task_keep(task, object, destroy) != MUSTER_OK) {
        free(object);
        return MUSTER_EINTERNAL;
    }
    return give(task, index_text);
}

/* gated N FILE: a counter, but not before that file is there. */
static muster_status gated(muster_task *task, void *arg)
{
    char file[64];

    (void)word(task, 1, file, sizeof(file));
    mark("building", "x\n");
    while (!is_marked(file)) {
        if (rest(task, 5)) {
            return muster_task_fail(task, 1, "stopped");
        }
    }
    return counter(task, arg);
}

/* total N: of the first N values that it needs. */
static muster_status total(muster_task *task, void *arg)
{
    int64_t sum = 0;

    (void)arg;
    for (int64_t i = 0; i < number(task, 0); i++) {
        const int64_t *object = muster_task_object(task, (size_t)i);

        if (!object) {
            return muster_task_fail(task, 2, "no object");
        }
        sum += *object;
    }
    return give_number(task, sum);
}

/* count [N]: adds N, or 1, to the first value it needs. */
static muster_status count(muster_task *task, void *arg)
{
    int64_t *object = muster_task_object(task, 0);
    char room[8];

    (void)arg;
    if (!object) {
        return muster_task_fail(task, 2, "no object");
    }
    *object += word(task, 0, room, sizeof(room)) > 0 ? number(task, 0) : 1;
    return give_number(task, *object);
}

/* What this worker has of 0 to 9, by its number: n and n + 5. */
static muster_status shard(muster_task *task, void *arg)
{
    int64_t *object = malloc(sizeof(*object));

    (void)arg;
    if (!object) {
        return MUSTER_ENOMEM;
    }
    *object = 2 * (muster_task_worker(task) % 5) + 5;
    if (muster_task_keep(task, object, destroy) != MUSTER_OK) {
        free(object);
        return MUSTER_EINTERNAL;
    }
    return MUSTER_OK;
}

/* share FILE: the sum of it, once that file is there. */
static muster_status share(muster_task *task, void *arg)
{
    int64_t *object = muster_task_object(task, 0);
    char file[64];

    (void)arg;
    (void)word(task, 0, file, sizeof(file));
    mark("began", "x\n");
    while (!is_marked(file)) {
        if (rest(task, 5)) {
            return muster_task_fail(task, 1, "stopped");
        }
    }
    return object ? give_number(task, *object) : muster_task_fail(task, 2, "no object");
}

/* need NAME: what the function of that name has built here, whichever place it has. */
static muster_status need(muster_task *task, void *arg)
{
    char name[64];
    size_t place;
    const struct muster_part *parts;
    const int64_t *object;

    (void)arg;
    (void)word(task, 0, name, sizeof(name));
    place = muster_task_need(task, name);
    object = muster_task_object(task, place);
    if (object) {
        return give_number(task, *object);
    }
    return muster_task_value(task, place, &parts) > 0
               ? muster_task_add(task, parts[0].data, parts[0].size, 0)
               : muster_task_fail(task, 4, place == SIZE_MAX ? "no such need" : "empty");
}

static muster_status value(muster_task *task, void *arg)
{
    const struct muster_part *parts;
    size_t many = muster_task_value(task, 0, &parts);

    (void)arg;
    return many > 0 ? muster_task_add(task, parts[0].data, parts[0].size, 0)
                    : muster_task_fail(task, 2, "no value");
}

/* ---- the program ---- */

static const struct {
    const char *name;
    muster_task_fn *fn;
    uint32_t flags;
} functions[] = {{"nothing", nothing, MUSTER_FUNCTION_PURE},
                 {"add", add, MUSTER_FUNCTION_PURE},
                 {"echo", echo, 0},
                 {"fail", fail, 0},
                 {"returns", returns, 0},
                 {"retry", retry, 0},
                 {"sleep", sleeps, 0},
                 {"until", until, 0},
                 {"idempotent", until, MUSTER_FUNCTION_IDEMPOTENT},
                 {"once", sleeps, MUSTER_FUNCTION_ONCE},
                 {"spin", spin, 0},
                 {"deaf", deaf, 0},
                 {"crash", crash, 0},
                 {"exit", exits, 0},
                 {"print", prints, 0},
                 {"close", closes, 0},
                 {"orphan", orphan, 0},
                 {"big", big, 0},
                 {"parts", parts, 0},
                 {"starve", starve, 0},
                 {"sum", sums, 0},
                 {"about", about, 0},
                 {"talk", talks, 0},
                 {"chatter", chatter, 0},
                 {"state", state, 0},
                 {"ask", asks, 0},
                 {"counter", counter, 0},
                 {"gated", gated, 0},
                 {"total", total, 0},
                 {"need", need, 0},
                 {"count", count, 0},
                 {"shard", shard, 0},
                 {"share", share, 0},
                 {"value", value, 0}};

/* By hand: neither does strtok, which is not ours to use, nor must the names hold commas. */
static bool wanted(const char *name)
{
    const char *only = getenv("CW_ONLY");
    size_t size = strlen(name);

    for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, name, size) == 0 && (at[size] == ',' || at[size] == '\0')) {
            return true;
        }
    }
    return !only;
}

static _Noreturn void give_up(const struct muster_error *err)
{
    (void)fprintf(stderr, "cluster_worker: %s\n", err->text);
    exit(1); // NOLINT(concurrency-mt-unsafe)
}

static void offer(muster_worker *worker)
{
    static const char *const shell[] = {"sh", "-c", NULL};
    static const char *const missing[] = {"/nonexistent/program", NULL};
    const char *text = getenv("CW_VERSION");
    uint32_t version = text ? (uint32_t)strtoul(text, NULL, 10) : 1;
    uint32_t threads = getenv("CW_THREADS") ? MUSTER_FUNCTION_THREADS : 0;
    struct muster_error err;
    char name[64];

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        (void)snprintf(name, sizeof(name), "child.%s", functions[i].name);
        if ((wanted(functions[i].name) &&
             muster_worker_register(worker, functions[i].name, version,
                                    functions[i].flags | threads, functions[i].fn, NULL, &err)) ||
            (wanted(name) && muster_worker_register(worker, name, version,
                                                    functions[i].flags | MUSTER_FUNCTION_CHILD,
                                                    functions[i].fn, NULL, &err))) {
            give_up(&err);
        }
    }
    if ((wanted("sh") &&
         muster_worker_register_command(worker, "sh", version, 0, shell, NULL, &err)) ||
        (wanted("missing") &&
         muster_worker_register_command(worker, "missing", version, 0, missing, NULL, &err)) ||
        (wanted("any") &&
         muster_worker_register_command(worker, "any", version, 0, NULL, NULL, &err))) {
        give_up(&err);
    }
}

static void tell(void *ctx, enum muster_level level, const char *line)
{
    (void)ctx;
    (void)fprintf(stderr, "%s%s\n", level == MUSTER_LEVEL_DEBUG ? "debug: " : "", line);
}

int main(void)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_error err = {0};
    struct muster_view view;
    muster_client *client;
    muster_worker *worker;
    muster_status status;

    options.role = MUSTER_ROLE_WORKER;
    options.log = tell;
    if (muster_client_open(&client, &options, 30000, &err) ||
        muster_worker_open(&worker, client, NULL, &err)) {
        give_up(&err);
    }
    muster_client_view(client, &view);
    (void)snprintf(index_text, sizeof(index_text), "%" PRIu32, view.index);
    offer(worker);
    (void)printf("ready #%" PRIu32 " %" PRIu64 " %d\n", view.index, view.incarnation,
                 (int)getpid());
    (void)fflush(stdout);
    status = muster_worker_serve(worker, &err);
    (void)printf("served %s %s\n", muster_status_name(status), status ? err.text : "");
    (void)fflush(stdout);
    muster_worker_close(worker);
    muster_client_close(client);
    return muster_exit_code(status);
}
