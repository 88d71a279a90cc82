/* SPDX-License-Identifier: Apache-2.0 */
/* External programs as functions. The loop reads the output of a command as it comes, and its input
 * is a file in memory: so neither side can keep the other waiting. */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "client/shell/environment.h"
#include "os/system.h"
#include "tasks/shell/worker/child.h"

enum {
    LINE_BYTES_MAX = 900,   /* of the standard error: what fits into a failure's text */
    TAIL_MAX = 64 * 1024,   /* of the same: what goes with the failure */
    READ_ROOM = 32 * 1024,  /* of one read */
    READ_MAX = 1024 * 1024, /* at a time */
    EXIT_RETRYABLE = 75
};

static void close_if(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

/* Not left to close: a process that a function forked may hold the descriptor too. */
static void close_end(const struct muster_worker *worker, int *fd)
{
    if (*fd >= 0) {
        (void)epoll_ctl(worker->epoll, EPOLL_CTL_DEL, *fd, NULL);
        close_if(fd);
    }
}

void mst_work_command_forget(struct muster_worker *worker, struct mst_work_command *command)
{
    close_end(worker, &command->out);
    close_end(worker, &command->error);
    mst_buffer_fini(&command->output);
    mst_buffer_fini(&command->tail);
    *command = (struct mst_work_command){.out = -1, .error = -1};
}

/* ---- what is to run: a file of two counts and the words, each ended by NUL (exec.c) ---- */

/* Variables about this process, which would be wrong for another. */
static bool is_ours(const char *variable)
{
    static const char *const names[] = {
        "MUSTER_PAGE_FD=", "MUSTER_SECRET_FD=", "MUSTER_INDEX=", "MUSTER_TASK_"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(variable, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static uint32_t put_environment(FILE *file, const struct muster_worker *worker,
                                const struct mst_work_job *job)
{
    const struct mst_cluster_message *message = job->message;
    uint32_t count = 0;

    mst_environment_lock();
    for (char **at = environ; at && *at; at++) {
        if (!is_ours(*at)) {
            (void)fwrite(*at, 1, strlen(*at) + 1, file);
            count++;
        }
    }
    mst_environment_unlock();
    (void)fprintf(file,
                  "MUSTER_TASK_CLOSURE=%" PRIu64 "%cMUSTER_TASK_ATTEMPT=%" PRIu32
                  "%cMUSTER_TASK_WORKER=%" PRIu32 "%cMUSTER_TASK_SLOT=%" PRIu32 "%c",
                  message->attempt.closure, 0, message->attempt.attempt, 0,
                  mst_worker_number(mst_work_machine(worker)), 0, job->slot, 0);
    if (message->key.size > 0) {
        (void)fprintf(file, "MUSTER_TASK_KEY=%.*s%c", (int)message->key.size,
                      (const char *)message->key.data, 0);
    } else {
        (void)fprintf(file, "MUSTER_TASK_KEY=%s/%" PRIu64 "/%" PRIu64 "%c", worker->cluster,
                      worker->term, message->attempt.closure, 0);
    }
    return count + 5;
}

/* NULL: they can be words of a command line; else why not. */
static const char *put_words(FILE *file, const struct mst_work_job *job, uint32_t *count_out)
{
    const struct mst_parts *parts = &job->message->parts;
    uint32_t count = 0;

    for (char **word = job->function->argv; word && *word; word++) {
        (void)fwrite(*word, 1, strlen(*word) + 1, file);
        count++;
    }
    for (uint32_t i = 0; i < parts->count; i++) {
        struct mst_slice data = parts->items[i].data;

        if (parts->items[i].type == MUSTER_PART_STDIN) {
            continue;
        }
        if (mst_slice_has_nul(data)) {
            return "an argument has a NUL byte, which no command line can carry";
        }
        if (data.size > 0) {
            (void)fwrite(data.data, 1, data.size, file);
        }
        (void)fputc(0, file);
        count++;
    }
    *count_out = count;
    return count > 0 ? NULL : "there is no argument, and the first one is to name the program";
}

/* A file in memory, to be written by stdio; `*fd` stays open. NULL, and -1: no memory. */
static FILE *memory_file(const char *name, int *fd)
{
    int copy;
    FILE *file;

    *fd = memfd_create(name, MFD_CLOEXEC);
    copy = *fd >= 0 ? fcntl(*fd, F_DUPFD_CLOEXEC, 0) : -1;
    file = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (!file) {
        close_if(&copy);
        close_if(fd);
    }
    return file;
}

/* NULL, or why it cannot be; *fd is -1 without memory. */
static const char *make_file(const struct muster_worker *worker, const struct mst_work_job *job,
                             int *fd)
{
    uint32_t counts[2] = {0, 0};
    FILE *file = memory_file("muster-command", fd);
    const char *why;

    if (!file) {
        return NULL;
    }
    (void)fwrite(counts, sizeof(counts), 1, file);
    why = put_words(file, job, &counts[0]);
    counts[1] = why ? 0 : put_environment(file, worker, job);
    if (fclose(file) != 0 || pwrite(*fd, counts, sizeof(counts), 0) != sizeof(counts)) {
        close_if(fd);
    }
    return why;
}

/* ---- beginning ---- */

/* The parts that are its standard input, one behind the other. -1: no memory. */
static int make_input(const struct mst_parts *parts)
{
    int fd;
    FILE *file = memory_file("muster-stdin", &fd);

    for (uint32_t i = 0; file && i < parts->count; i++) {
        if (parts->items[i].type == MUSTER_PART_STDIN && parts->items[i].data.size > 0) {
            (void)fwrite(parts->items[i].data.data, 1, parts->items[i].data.size, file);
        }
    }
    if (file && (fclose(file) != 0 || lseek(fd, 0, SEEK_SET) != 0)) {
        close_if(&fd);
    }
    return fd;
}

static bool make_pipe(int *ours, int *theirs)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    *ours = ends[0];
    *theirs = ends[1];
    return fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
}

static bool begin(struct muster_worker *worker, struct mst_work_job *job, int file)
{
    struct mst_work_command *command = &worker->slot[job->slot].command;
    int fds[4] = {make_input(&job->message->parts), -1, -1, file};
    char scratch[MST_WORK_SCRATCH_MAX];
    bool began = false;

    (void)snprintf(scratch, sizeof(scratch), "%s/muster-task-XXXXXX", worker->scratch);
    if (fds[0] >= 0 && make_pipe(&command->out, &fds[1]) && make_pipe(&command->error, &fds[2]) &&
        mst_work_watch_fd(worker, command->out, MST_WORK_EVENT_COMMAND, job->slot) &&
        mst_work_watch_fd(worker, command->error, MST_WORK_EVENT_COMMAND, job->slot) &&
        mkdtemp(scratch)) {
        command->began_ns = mst_system_now_ns();
        mst_buffer_init(&command->output, &mst_system_mem, job->function->stdout_max);
        mst_buffer_init(&command->tail, &mst_system_mem, 2 * (size_t)TAIL_MAX);
        began = mst_work_supervisor_ask(worker, MST_SUPERVISOR_COMMAND, worker->slots + job->slot,
                                        0, scratch, fds, 4);
        if (!began) {
            (void)rmdir(scratch);
        }
    }
    for (int i = 0; i < 3; i++) {
        close_if(&fds[i]);
    }
    command->lives = began;
    return began;
}

void mst_work_command_begin(struct muster_worker *worker, struct mst_work_job *job)
{
    int file = -1;
    const char *why = make_file(worker, job, &file);

    job->running = true;
    if (why) {
        mst_work_owe(worker, job, MST_ORIGIN_ARGUMENT, 0, why);
    } else if (job->message->type == MST_CLUSTER_BUILD &&
               !mst_work_value_add(&worker->values, job->message)) {
        mst_work_owe(worker, job, MST_ORIGIN_EXHAUSTED, 0, MST_WORK_NO_MEMORY);
    } else if (file < 0 || !begin(worker, job, file)) {
        int error = errno;

        mst_work_command_forget(worker, &worker->slot[job->slot].command);
        mst_work_owe(worker, job, MST_ORIGIN_EXHAUSTED, error,
                     "the worker has no memory, descriptors or scratch folder for a command");
    }
    close_if(&file);
}

void mst_work_command_stop(struct muster_worker *worker, struct mst_work_job *job, bool kill)
{
    (void)mst_work_supervisor_ask(worker, MST_SUPERVISOR_SIGNAL, worker->slots + job->slot,
                                  kill ? SIGKILL : SIGTERM, NULL, NULL, 0);
}

/* ---- output ---- */

static void take_output(struct muster_worker *worker, uint32_t slot, struct mst_slice bytes)
{
    struct mst_work_command *command = &worker->slot[slot].command;

    if (!command->too_much && !mst_buffer_append(&command->output, bytes)) {
        command->too_much = true;
        mst_work_command_stop(worker, &worker->slot[slot].job, true);
    }
}

/* Keeps the end; where there is no memory for both, not what came before. */
static void take_error(struct mst_work_command *command, struct mst_slice bytes)
{
    struct mst_buffer *tail = &command->tail;
    size_t size;

    if (!mst_buffer_append(tail, bytes)) {
        mst_buffer_take(tail, mst_buffer_content(tail).size);
        (void)mst_buffer_append(tail, bytes);
    }
    size = mst_buffer_content(tail).size;
    mst_buffer_take(tail, size > TAIL_MAX ? size - TAIL_MAX : 0);
}

static void hear(struct muster_worker *worker, uint32_t slot, bool error)
{
    struct mst_work_command *command = &worker->slot[slot].command;
    int *fd = error ? &command->error : &command->out;
    char bytes[READ_ROOM];
    size_t sum = 0;

    while (*fd >= 0 && sum < READ_MAX) {
        ssize_t got = read(*fd, bytes, sizeof(bytes));

        if (got > 0) {
            sum += (size_t)got;
            if (error) {
                take_error(command, mst_slice_of(bytes, (size_t)got));
            } else {
                take_output(worker, slot, mst_slice_of(bytes, (size_t)got));
            }
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            close_end(worker, fd);
        } else if (errno == EAGAIN) {
            break;
        }
    }
}

void mst_work_command_ready(struct muster_worker *worker, uint32_t slot)
{
    if (worker->slot[slot].command.lives) {
        hear(worker, slot, false);
        hear(worker, slot, true);
    }
}

/* ---- its end ---- */

/* The end of its standard error, on one line. */
static void add_tail(const struct mst_work_command *command, struct mst_text *text)
{
    struct mst_slice tail = mst_buffer_content(&command->tail);
    const char *at = tail.data;
    size_t size = tail.size;

    while (size > 0 && (at[size - 1] == '\n' || at[size - 1] == ' ')) {
        size--;
    }
    if (size == 0) {
        return;
    }
    mst_text_add(text, ": ");
    if (size > LINE_BYTES_MAX) {
        mst_text_add(text, "...");
        at += size - LINE_BYTES_MAX;
        size = LINE_BYTES_MAX;
    }
    while (size > 0) {
        const char *line = memchr(at, '\n', size);
        size_t length = line ? (size_t)(line - at) : size;

        mst_text_format(text, "%.*s", (int)length, at);
        at += length;
        size -= length;
        if (size > 0) {
            mst_text_add(text, " | ");
            at++;
            size--;
        }
    }
}

static void judge(const struct mst_work_command *command, const struct mst_work_job *job, int error,
                  int status, struct mst_failure *failure, struct mst_text *text)
{
    char why[128] = "";

    *failure = (struct mst_failure){.worker = MST_WORKER_NONE};
    if (error != 0) {
        bool short_of = error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE;

        failure->origin = short_of ? MST_ORIGIN_EXHAUSTED : MST_ORIGIN_FUNCTION;
        failure->code = short_of ? error : 127;
        mst_text_format(text, "the command '%s' cannot be run: %s",
                        job->function->argv ? job->function->argv[0] : job->function->name,
                        strerror_r(error, why, sizeof(why)));
    } else if (command->too_much) {
        failure->origin = MST_ORIGIN_EXHAUSTED;
        mst_text_format(text,
                        "its standard output is more than the %" PRIu64
                        " bytes that are allowed; it was killed: let it write to a file, and print "
                        "where that is",
                        job->function->stdout_max);
    } else if (WIFSIGNALED(status)) {
        failure->origin = job->asked ? MST_ORIGIN_CANCELLED : MST_ORIGIN_CRASH;
        failure->code = -WTERMSIG(status);
        mst_text_add(text, mst_work_signal_name(WTERMSIG(status)));
        add_tail(command, text);
    } else if (WEXITSTATUS(status) != 0) {
        failure->origin =
            WEXITSTATUS(status) == EXIT_RETRYABLE ? MST_ORIGIN_RETRYABLE : MST_ORIGIN_FUNCTION;
        failure->code = WEXITSTATUS(status);
        mst_text_format(text, "exit status %d", failure->code);
        add_tail(command, text);
    }
    failure->text = mst_slice_text(text->start);
}

void mst_work_command_ended(struct muster_worker *worker, uint32_t slot, int error, int status)
{
    struct mst_work_command *command = &worker->slot[slot].command;
    struct mst_work_job *job = &worker->slot[slot].job;
    char line[MST_FAILURE_TEXT_MAX];
    struct mst_text text = mst_text_in(line, sizeof(line));
    struct mst_failure failure;
    struct mst_part part = {0};
    struct mst_parts parts = {.items = &part, .count = 1};
    struct mst_work_value *value;
    uint64_t run_ns;

    if (!command->lives) {
        return;
    }
    hear(worker, slot, false);
    hear(worker, slot, true);
    run_ns = mst_system_now_ns() - command->began_ns;
    judge(command, job, error, status, &failure, &text);
    part.data = mst_buffer_content(&command->output);
    if (failure.origin != MST_ORIGIN_NONE) {
        part = (struct mst_part){.data = mst_buffer_content(&command->tail),
                                 .type = MUSTER_PART_STDERR};
        parts.count = part.data.size > 0 && job->message->type == MST_CLUSTER_RUN;
    } else if (job->message->type == MST_CLUSTER_BUILD &&
               (value = mst_work_value_find(&worker->values, job->message->value)) != NULL) {
        mst_work_value_set(value, parts);
    }
    mst_work_answer(worker, job, failure.origin != MST_ORIGIN_NONE ? &failure : NULL, parts,
                    run_ns);
    mst_work_command_forget(worker, command);
}
