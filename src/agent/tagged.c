/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "agent/tagged.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
#define ROUNDS_MAX 8u /* somebody may fork while he is looked for */
#define EXEC_LOOKS_MAX 64u
#define EXEC_PAUSE_MS 1
#define KILLED_MAX 256u
#define KERNEL_THREAD 0x00200000u /* PF_KTHREAD */

/* ---- tags ---- */

void mst_tag_make(uint64_t *run_out)
{
    struct timespec now = {0};

    if (getrandom(run_out, sizeof *run_out, GRND_NONBLOCK) != (ssize_t)sizeof *run_out) {
        (void)clock_gettime(CLOCK_REALTIME, &now);
        *run_out = (uint64_t)getpid() << 40 ^ (uint64_t)now.tv_sec << 20 ^ (uint64_t)now.tv_nsec;
    }
}

void mst_tag_text(uint64_t run, uint32_t index, uint32_t attempt, char text[MST_TAG_ROOM])
{
    (void)snprintf(text, MST_TAG_ROOM, "%016" PRIx64 ":%" PRIu32 ".%" PRIu32, run, index, attempt);
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

/* The fields of /proc/PID/stat, as proc(5) numbers them. */
enum { FIELD_STATE = 3, FIELD_FLAGS = 9, FIELD_ENV_START = 50, FIELD_ENV_END = 51 };

/* Whether the process had another environment than the `size` bytes that were read: exec takes the
 * old memory away before it fills the new one, and in between there is nothing to read. */
static bool is_within_exec(pid_t pid, uint64_t size)
{
    char path[32], block[BLOCK];
    uint64_t fields[FIELD_ENV_END + 1] = {0};
    const char *at;
    ssize_t got;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    got = read(fd, block, sizeof block - 1);
    (void)close(fd);
    block[got > 0 ? got : 0] = '\0';
    at = strrchr(block, ')'); /* the name may hold anything */
    if (at == NULL || strlen(at) < 3 || at[2] == 'Z' || at[2] == 'X') {
        return false;
    }
    at = strchr(at + 2, ' ');
    for (unsigned field = FIELD_STATE + 1; at != NULL && field <= FIELD_ENV_END; field++) {
        fields[field] = strtoull(at + 1, NULL, 10);
        at = strchr(at + 1, ' ');
    }
    return (fields[FIELD_FLAGS] & KERNEL_THREAD) == 0 &&
           (fields[FIELD_ENV_END] == 0 || size != fields[FIELD_ENV_END] - fields[FIELD_ENV_START]);
}

enum tag { TAG_NONE, TAG_FOUND, TAG_AGAIN };

/* NONE: it has none, or belongs to somebody else, or has ended. AGAIN: it is within exec. */
static enum tag tag_of(pid_t pid, char tag[MST_TAG_ROOM])
{
    struct reading reading = {0};
    char path[32], block[BLOCK];
    uint64_t size = 0;
    ssize_t got = 0;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
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
    (void)close(fd);
    memcpy(tag, reading.value, sizeof reading.value);
    return reading.found ? TAG_FOUND : is_within_exec(pid, size) ? TAG_AGAIN : TAG_NONE;
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

/* With the descriptor its number stays its own between the look and the signal. */
bool mst_tagged_signal(pid_t pid, const char *tag, int number)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    char own[MST_TAG_ROOM];
    bool sent = false;

    if (fd < 0 && errno != ENOSYS) {
        return false;
    }
    if (tag_after_exec(pid, own) == TAG_FOUND && strcmp(own, tag) == 0) {
        sent = fd >= 0 ? syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0
                       : kill(pid, number) == 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return sent;
}

static bool take_number(const char **text, int base, char end, uint64_t *out)
{
    char *after;

    errno = 0;
    *out = strtoull(*text, &after, base);
    if (after == *text || *after != end || errno != 0) {
        return false;
    }
    *text = after + 1;
    return true;
}

/* Whether the tag is of a process that this run has started. */
static bool is_of(const char *tag, uint64_t run, uint32_t *index_out, uint32_t *attempt_out)
{
    uint64_t of, index, attempt;

    if (!take_number(&tag, 16, ':', &of) || !take_number(&tag, 10, '.', &index) ||
        !take_number(&tag, 10, '\0', &attempt) || of != run || index > UINT32_MAX ||
        attempt > UINT32_MAX) {
        return false;
    }
    *index_out = (uint32_t)index;
    *attempt_out = (uint32_t)attempt;
    return true;
}

struct killed {
    pid_t pids[KILLED_MAX];
    unsigned count;
};

/* One that is killed still shows its environment for a moment. */
static bool is_news(const struct killed *killed, pid_t pid)
{
    for (unsigned i = 0; i < killed->count; i++) {
        if (killed->pids[i] == pid) {
            return false;
        }
    }
    return true;
}

/* A buffer of ours, as opendir allocates, which a forked child must not. */
struct entries {
    int fd;
    long size, at;
    char block[BLOCK] __attribute__((aligned(8)));
};

/* As the kernel writes them. */
struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[];
};

/* 0: that was the last one. */
static pid_t next_process(struct entries *entries)
{
    for (;;) {
        const struct entry *entry;
        long pid;

        if (entries->at >= entries->size) {
            entries->size =
                syscall(SYS_getdents64, entries->fd, entries->block, sizeof entries->block);
            entries->at = 0;
            if (entries->size <= 0) {
                return 0;
            }
        }
        entry = (const void *)(entries->block + entries->at);
        entries->at += entry->size;
        pid = strtol(entry->name, NULL, 10);
        if (pid > 0 && pid <= INT32_MAX) {
            return (pid_t)pid;
        }
    }
}

/* How many were killed that had not been before. */
static unsigned kill_once(uint64_t run, mst_tagged_doomed_fn *doomed, void *ctx,
                          struct killed *killed)
{
    struct entries entries = {.fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    unsigned count = 0;
    pid_t pid;

    while (entries.fd >= 0 && (pid = next_process(&entries)) != 0) {
        char tag[MST_TAG_ROOM];
        uint32_t index, attempt;

        if (tag_after_exec(pid, tag) == TAG_FOUND && is_of(tag, run, &index, &attempt) &&
            doomed(ctx, index, attempt) && is_news(killed, pid) &&
            mst_tagged_signal(pid, tag, SIGKILL)) {
            if (killed->count < KILLED_MAX) {
                killed->pids[killed->count++] = pid;
            }
            count++;
        }
    }
    if (entries.fd >= 0) {
        (void)close(entries.fd);
    }
    return count;
}

void mst_tagged_kill(uint64_t run, mst_tagged_doomed_fn *doomed, void *ctx)
{
    struct killed killed = {.count = 0};

    for (unsigned i = 0; i < ROUNDS_MAX && kill_once(run, doomed, ctx, &killed) != 0; i++) {
    }
}
