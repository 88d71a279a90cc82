/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper calls this too, which was forked: so it calls async-signal-safe functions only, which
 * tools/tidy checks. */
#define _GNU_SOURCE
#include "process/tagged.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "process/proc_stat.h"
#include "proto/run_keys.h"

#define BLOCK 4096
#define ROUNDS_MAX 8u /* somebody may fork while he is looked for */
#define EXEC_LOOKS_MAX 64u
#define EXEC_PAUSE_MS 1
#define KILLED_MAX 256u
#define KERNEL_THREAD 0x00200000u /* PF_KTHREAD */

/* ---- tags ---- */

/* "00f3a0c112345678:", which all tags of the run begin with. */
#define RUN "%016" PRIx64 ":"

void mst_tag_text(uint64_t run, uint32_t index, uint32_t attempt, char text[MST_TAG_ROOM])
{
    mst_text_print(text, MST_TAG_ROOM, RUN "%u.%u", run, index, attempt);
}

/* ---- descriptors ---- */

enum { NONE = 0, CLAIMED = -1 };

/* For two threads at a time: the sweep has a folder, a pidfd and a file open, a signal two. */
static struct {
    int first; /* which the others are copies of; NONE: nothing is kept back */
    atomic_int copies[5];
} reserve;

#define COPIES (sizeof reserve.copies / sizeof reserve.copies[0])

/* `fd` becomes a copy in the place of one that was given up, and has its number all the time, so
 * that no other file gets that. -1: a new one does. False: none was given up. */
static bool keep(int fd)
{
    for (unsigned i = 0; i < COPIES && reserve.first != NONE; i++) {
        int copy = NONE;

        if (atomic_compare_exchange_strong(&reserve.copies[i], &copy, CLAIMED)) {
            copy = fd >= 0 ? dup3(reserve.first, fd, O_CLOEXEC)
                           : fcntl(reserve.first, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
            atomic_store(&reserve.copies[i], copy > 0 ? copy : NONE);
            return copy > 0;
        }
    }
    return false;
}

void mst_tagged_reserve(void)
{
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    reserve.first = fd > STDERR_FILENO ? fd : NONE;
    while (keep(-1)) {
    }
}

/* After a call that got no descriptor: whether there is one now. */
static bool give_one_up(void)
{
    for (unsigned i = 0; errno == EMFILE && i < COPIES; i++) {
        int fd = atomic_load(&reserve.copies[i]);

        if (fd > 0 && atomic_compare_exchange_strong(&reserve.copies[i], &fd, NONE)) {
            (void)close(fd);
            return true;
        }
    }
    return false;
}

static void close_or_keep(int fd)
{
    if (!keep(fd)) {
        (void)close(fd);
    }
}

/* A file, or, where `path` is NULL, a process. */
static int try_to_open(const char *path, int flags, pid_t pid)
{
    return path != NULL ? open(path, O_RDONLY | O_CLOEXEC | flags)
                        : (int)syscall(SYS_pidfd_open, pid, 0);
}

static int open_any(const char *path, int flags, pid_t pid)
{
    int fd = try_to_open(path, flags, pid);

    if (fd < 0 && give_one_up()) {
        fd = try_to_open(path, flags, pid);
        if (fd < 0) { /* it has ended, or may not be looked at */
            (void)keep(-1);
        }
    }
    return fd;
}

/* ---- what a process was started with ---- */

/* Where the reading of an environment stands: in the name that is looked for, in its value, or in
 * another entry. */
struct reading {
    size_t matched;
    bool elsewhere, found;
    char value[MST_TAG_ROOM];
    size_t size;
};

static void read_on(struct reading *reading, const char *block, size_t size)
{
    static const char name[] = MST_TAG_VARIABLE "=";

    for (size_t i = 0; i < size && !reading->found; i++) {
        char byte = block[i];

        if (reading->elsewhere) {
            const char *end = memchr(block + i, '\0', size - i);

            if (end == NULL) {
                return;
            }
            i = (size_t)(end - block);
            reading->elsewhere = false;
            reading->matched = 0;
        } else if (reading->matched < sizeof name - 1) {
            reading->elsewhere = byte != name[reading->matched] && byte != '\0';
            reading->matched = byte == name[reading->matched] ? reading->matched + 1 : 0;
        } else if (byte == '\0') {
            reading->found = true;
        } else if (reading->size < sizeof reading->value - 1) {
            reading->value[reading->size++] = byte;
        }
    }
}

static int open_of(pid_t pid, const char *file)
{
    char path[40];

    mst_text_print(path, sizeof path, "/proc/%d%s", (int)pid, file);
    return open_any(path, 0, 0);
}

static bool stat_of(pid_t pid, struct mst_proc_stat *out)
{
    int fd = open_of(pid, "/stat");
    bool is_there;

    if (fd < 0) {
        return false;
    }
    is_there = mst_proc_stat_read(fd, out);
    close_or_keep(fd);
    return is_there;
}

enum tag { TAG_NONE, TAG_FOUND, TAG_AGAIN };

/* NONE: it has none, or belongs to somebody else, or has ended. AGAIN: it is within exec. */
static enum tag tag_of(pid_t pid, char tag[MST_TAG_ROOM])
{
    struct reading reading = {0};
    struct mst_proc_stat stat;
    int fd = open_of(pid, "/environ");
    char block[BLOCK];
    uint64_t size = 0;
    ssize_t got = 0;

    if (fd < 0) {
        return TAG_NONE;
    }
    do {
        got = read(fd, block, sizeof block);
        if (got > 0) {
            read_on(&reading, block, (size_t)got);
            size += (uint64_t)got;
        }
    } while (!reading.found && (got > 0 || (got < 0 && errno == EINTR)));
    close_or_keep(fd);
    memcpy(tag, reading.value, sizeof reading.value);
    if (reading.found) {
        return TAG_FOUND;
    }
    /* Where there is an environment and less was read, it is within exec, which takes the old
     * memory away before it fills the new one. */
    return stat_of(pid, &stat) && (stat.flags & KERNEL_THREAD) == 0 &&
                   (stat.env_end == 0 || size != stat.env_end - stat.env_start)
               ? TAG_AGAIN
               : TAG_NONE;
}

static enum tag tag_after_exec(pid_t pid, char tag[MST_TAG_ROOM])
{
    enum tag found = tag_of(pid, tag);

    for (unsigned i = 0; found == TAG_AGAIN && i < EXEC_LOOKS_MAX; i++) {
        (void)poll(NULL, 0, EXEC_PAUSE_MS);
        found = tag_of(pid, tag);
    }
    return found;
}

/* ---- signals ---- */

static bool is_the_one(pid_t pid, uint64_t start, const char *tag)
{
    struct mst_proc_stat stat;
    char own[MST_TAG_ROOM];

    if (start != 0 && stat_of(pid, &stat) && stat.start == start) {
        return true;
    }
    return tag_after_exec(pid, own) == TAG_FOUND && strcmp(own, tag) == 0;
}

/* With the descriptor its number stays its own between the look and the signal. */
bool mst_tagged_signal(pid_t pid, uint64_t start, const char *tag, int number)
{
    int fd = open_any(NULL, 0, pid);
    bool sent = false;

    if (fd < 0 && errno != ENOSYS) {
        return false;
    }
    if (is_the_one(pid, start, tag)) {
        sent = fd >= 0 ? syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0
                       : kill(pid, number) == 0;
    }
    if (fd >= 0) {
        close_or_keep(fd);
    }
    return sent;
}

/* Whether the tag is of a process that this run has started. */
static bool is_of(const char *tag, uint64_t run, uint32_t *index_out, uint32_t *attempt_out)
{
    char own[MST_TAG_ROOM];
    size_t size = mst_text_print(own, sizeof own, RUN, run);
    struct mst_slice head = mst_slice_of(own, size), text = mst_slice_text(tag);
    const char *index = tag + size, *dot = strchr(tag, '.');

    return mst_slice_starts_with(text, head) && dot != NULL && dot >= index &&
           mst_run_number_read(mst_slice_of(index, (size_t)(dot - index)), UINT32_MAX, index_out) &&
           mst_run_number_read(mst_slice_text(dot + 1), UINT32_MAX, attempt_out);
}

struct killed {
    pid_t pids[KILLED_MAX];
    unsigned count;
};

/* One that is killed still shows its environment for a moment. */
static bool is_news(const struct killed *killed, pid_t pid)
{
    unsigned i = 0;

    while (i < killed->count && killed->pids[i] != pid) {
        i++;
    }
    return i == killed->count;
}

/* How many were killed that had not been before. */
static unsigned kill_once(uint64_t run, mst_tagged_doomed_fn *doomed, void *ctx,
                          struct killed *killed)
{
    struct mst_folder proc = {.fd = open_any("/proc", O_DIRECTORY, 0)};
    unsigned count = 0;
    pid_t pid;

    while (proc.fd >= 0 && (pid = mst_proc_stat_next(&proc)) != 0) {
        char tag[MST_TAG_ROOM];
        uint32_t index, attempt;

        if (tag_after_exec(pid, tag) == TAG_FOUND && is_of(tag, run, &index, &attempt) &&
            doomed(ctx, index, attempt) && is_news(killed, pid) &&
            mst_tagged_signal(pid, 0, tag, SIGKILL)) {
            if (killed->count < KILLED_MAX) {
                killed->pids[killed->count++] = pid;
            }
            count++;
        }
    }
    if (proc.fd >= 0) {
        close_or_keep(proc.fd);
    }
    return count;
}

void mst_tagged_kill(uint64_t run, mst_tagged_doomed_fn *doomed, void *ctx)
{
    struct killed killed = {.count = 0};

    for (unsigned i = 0; i < ROUNDS_MAX && kill_once(run, doomed, ctx, &killed) != 0; i++) {
    }
}
