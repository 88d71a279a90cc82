/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/hang/diagnose.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "process/proc_stat.h"

#define RUNNING_PART 10u /* of the time: a thread that uses that much is not blocked */

/* The calls that ranks are blocked in. Others are reported as the kernel calls the place. */
static const char *const calls[] = {
#ifdef SYS_poll /* newer machines lack the older calls */
    [SYS_poll] = "poll",
    [SYS_select] = "select",
    [SYS_epoll_wait] = "epoll_wait",
    [SYS_pause] = "pause",
#endif
    [SYS_read] = "read",
    [SYS_write] = "write",
    [SYS_readv] = "readv",
    [SYS_writev] = "writev",
    [SYS_pread64] = "pread",
    [SYS_pwrite64] = "pwrite",
    [SYS_recvfrom] = "recvfrom",
    [SYS_recvmsg] = "recvmsg",
    [SYS_recvmmsg] = "recvmmsg",
    [SYS_sendto] = "sendto",
    [SYS_sendmsg] = "sendmsg",
    [SYS_accept] = "accept",
    [SYS_accept4] = "accept4",
    [SYS_connect] = "connect",
    [SYS_futex] = "futex",
    [SYS_nanosleep] = "nanosleep",
    [SYS_clock_nanosleep] = "clock_nanosleep",
    [SYS_ppoll] = "ppoll",
    [SYS_pselect6] = "pselect",
    [SYS_epoll_pwait] = "epoll_pwait",
    [SYS_wait4] = "wait4",
    [SYS_waitid] = "waitid",
    [SYS_ioctl] = "ioctl",
    [SYS_openat] = "openat",
    [SYS_close] = "close",
    [SYS_fsync] = "fsync",
    [SYS_fdatasync] = "fdatasync",
    [SYS_flock] = "flock",
    [SYS_fcntl] = "fcntl",
    [SYS_semtimedop] = "semtimedop",
    [SYS_msgrcv] = "msgrcv",
    [SYS_rt_sigtimedwait] = "sigtimedwait",
    [SYS_rt_sigsuspend] = "sigsuspend",
    [SYS_io_getevents] = "io_getevents",
    [SYS_exit] = "exit",
    [SYS_exit_group] = "exit_group"};

static const char nameless[] = "a place the kernel does not name";

static pid_t thread_of(pid_t pid, uint64_t thread)
{
    return thread != 0 ? (pid_t)thread : pid;
}

/* A file of the thread, as one line; empty where there is none. */
static void read_file(pid_t pid, uint64_t thread, const char *name, char *text, size_t room)
{
    char path[96];
    ssize_t got = -1;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)pid, (int)thread_of(pid, thread),
                   name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, text, room - 1);
        (void)close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static bool stat_of(pid_t pid, uint64_t thread, struct mst_proc_stat *out)
{
    return mst_proc_stat_thread(pid, (uint64_t)thread_of(pid, thread), out);
}

static uint64_t ns_of(uint64_t ticks)
{
    long per_s = sysconf(_SC_CLK_TCK);

    return ticks * (NS_PER_S / (uint64_t)(per_s > 0 ? per_s : 100));
}

bool mst_diagnose_cpu(pid_t pid, uint64_t thread, uint64_t *cpu_ns_out)
{
    struct mst_proc_stat stat;
    bool runs = stat_of(pid, thread, &stat);

    if (runs) {
        *cpu_ns_out = ns_of(stat.cpu);
    }
    return runs;
}

bool mst_diagnose_wanted(pid_t pid, uint64_t thread, uint64_t *wanted_ns_out)
{
    char line[96];
    char *end;
    uint64_t ran_ns, waited_ns;

    read_file(pid, thread, "schedstat", line, sizeof line);
    ran_ns = strtoull(line, &end, 10);
    if (end == line) {
        return mst_diagnose_cpu(pid, thread, wanted_ns_out);
    }
    waited_ns = strtoull(end, NULL, 10);
    *wanted_ns_out = ran_ns + waited_ns;
    return true;
}

/* The name of the call, or else of the place in the kernel. */
static void name_place(pid_t pid, uint64_t thread, char *text, size_t room)
{
    char line[256];
    char *end;
    long number;

    read_file(pid, thread, "syscall", line, sizeof line);
    number = strtol(line, &end, 10);
    if (end != line && number >= 0 && number < (long)(sizeof calls / sizeof calls[0]) &&
        calls[number] != NULL) {
        (void)snprintf(text, room, "%s", calls[number]);
        return;
    }
    read_file(pid, thread, "wchan", line, sizeof line);
    if (line[0] != '\0' && strcmp(line, "0") != 0) {
        (void)snprintf(text, room, "%.64s", line);
    } else if (end != line && number >= 0) {
        (void)snprintf(text, room, "system call %ld", number);
    } else {
        (void)snprintf(text, room, "%s", nameless);
    }
}

static bool is_frozen(pid_t pid, uint64_t thread)
{
    char place[128];

    read_file(pid, thread, "wchan", place, sizeof place);
    return strstr(place, "freez") != NULL || strstr(place, "refrigerator") != NULL;
}

bool mst_diagnose_stopped(pid_t pid, uint64_t thread)
{
    struct mst_proc_stat stat;

    return stat_of(pid, thread, &stat) &&
           (stat.state == 'T' || stat.state == 't' || is_frozen(pid, thread));
}

void mst_diagnose_thread(pid_t pid, uint64_t thread, uint64_t cpu_ns, uint64_t wall_ns, char *text,
                         size_t room)
{
    struct mst_proc_stat stat;
    char place[80];

    if (!stat_of(pid, thread, &stat)) {
        (void)snprintf(text, room, "its thread is gone");
    } else if (is_frozen(pid, thread)) {
        (void)snprintf(text, room, "frozen");
    } else if (stat.state == 'T') {
        (void)snprintf(text, room, "stopped by a signal");
    } else if (stat.state == 't') {
        (void)snprintf(text, room, "stopped by a debugger");
    } else if (stat.state == 'R' ||
               (wall_ns != 0 && ns_of(stat.cpu) - cpu_ns >= wall_ns / RUNNING_PART)) {
        (void)snprintf(text, room, "running");
    } else {
        name_place(pid, thread, place, sizeof place);
        (void)snprintf(text, room, "blocked in %s (%s)", place,
                       stat.state == 'D' ? "uninterruptible" : "sleeping");
    }
}

int64_t mst_diagnose_age_ms(pid_t pid)
{
    struct mst_proc_stat stat;
    int64_t age_ms;

    (void)mst_proc_stat_of(pid, &stat); /* a zombie has an age, too */
    age_ms = mst_clock_ms(CLOCK_BOOTTIME) - (int64_t)(ns_of(stat.start) / NS_PER_MS);
    return stat.start != 0 && age_ms > 0 ? age_ms : 0;
}

bool mst_diagnose_end(pid_t pid, int *status_out)
{
    struct mst_proc_stat stat;

    (void)mst_proc_stat_of(pid, &stat); /* of the process: its first thread may end last */
    *status_out = stat.end;
    return stat.end != 0 && (WIFEXITED(stat.end) || WIFSIGNALED(stat.end));
}

void mst_diagnose_blocked(pid_t pid, char *text, size_t room)
{
    char path[64];
    const char *thread;
    struct mst_folder threads;

    text[0] = '\0';
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    if (mst_folder_open(&threads, AT_FDCWD, path)) {
        while (text[0] == '\0' && (thread = mst_folder_next(&threads)) != NULL) {
            read_file(pid, strtoull(thread, NULL, 10), "wchan", text, room);
            text[strcmp(text, "0") == 0 ? 0 : strlen(text)] = '\0'; /* it waits for nothing */
        }
        mst_folder_close(&threads);
    }
    if (text[0] == '\0') {
        (void)snprintf(text, room, "%s", nameless);
    }
}
