/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/hang/diagnose.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"

#define CPU_FIELD 11     /* utime, counted from the state; stime follows */
#define START_FIELD 19   /* in ticks since the machine began */
#define END_FIELD 49     /* exit_code: 0 where it may not be read */
#define RUNNING_PART 10u /* who uses a tenth of the time is not blocked */

/* The calls that ranks are blocked in. Others are told as the kernel calls the place. */
static const struct {
    long number;
    const char *name;
} calls[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_readv, "readv"},
    {SYS_writev, "writev"},
    {SYS_pread64, "pread"},
    {SYS_pwrite64, "pwrite"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_recvmmsg, "recvmmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},
    {SYS_connect, "connect"},
    {SYS_futex, "futex"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_ioctl, "ioctl"},
    {SYS_openat, "openat"},
    {SYS_close, "close"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_semtimedop, "semtimedop"},
    {SYS_msgrcv, "msgrcv"},
    {SYS_rt_sigtimedwait, "sigtimedwait"},
    {SYS_rt_sigsuspend, "sigsuspend"},
    {SYS_io_getevents, "io_getevents"},
    {SYS_exit, "exit"},
    {SYS_exit_group, "exit_group"},
#ifdef SYS_poll
    {SYS_poll, "poll"},
#endif
#ifdef SYS_select
    {SYS_select, "select"},
#endif
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll_wait"},
#endif
#ifdef SYS_pause
    {SYS_pause, "pause"},
#endif
};

static const char nameless[] = "a place the kernel does not name";

/* The file as text; empty where there is none. */
static void read_path(const char *path, char *text, size_t room)
{
    ssize_t got = -1;
    int fd;

    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, text, room - 1);
        (void)close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static void read_file(pid_t pid, uint64_t thread, const char *name, char *text, size_t room)
{
    char path[96];

    (void)snprintf(path, sizeof path, "/proc/%d/task/%" PRIu64 "/%s", (int)pid,
                   thread != 0 ? thread : (uint64_t)pid, name);
    read_path(path, text, room);
}

/* What follows the name, which may have anything in it: the state is the first. NULL: no thread. */
static const char *fields_of(const char *stat)
{
    const char *end = strrchr(stat, ')');

    return end != NULL && end[1] == ' ' && end[2] != '\0' ? end + 2 : NULL;
}

static const char *stat_of(pid_t pid, uint64_t thread, char *text, size_t room)
{
    read_file(pid, thread, "stat", text, room);
    return fields_of(text);
}

static const char *field_of(const char *fields, unsigned number)
{
    for (unsigned i = 0; fields != NULL && i < number; i++) {
        fields = strchr(fields, ' ');
        fields = fields != NULL ? fields + 1 : NULL;
    }
    return fields;
}

static uint64_t cpu_of(const char *fields)
{
    uint64_t ticks = 0;
    long per_s = sysconf(_SC_CLK_TCK);

    fields = field_of(fields, CPU_FIELD);
    if (fields != NULL) {
        char *end;

        ticks = strtoull(fields, &end, 10);
        ticks += strtoull(end, NULL, 10);
    }
    return ticks * (NS_PER_S / (uint64_t)(per_s > 0 ? per_s : 100));
}

bool mst_diagnose_cpu(pid_t pid, uint64_t thread, uint64_t *cpu_ns_out)
{
    char text[512];
    const char *fields = stat_of(pid, thread, text, sizeof text);

    if (fields == NULL) {
        return false;
    }
    *cpu_ns_out = cpu_of(fields);
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
    for (size_t i = 0; end != line && i < sizeof calls / sizeof calls[0]; i++) {
        if (calls[i].number == number) {
            (void)snprintf(text, room, "%s", calls[i].name);
            return;
        }
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
    char line[512];
    const char *fields = stat_of(pid, thread, line, sizeof line);

    return fields != NULL && (fields[0] == 'T' || fields[0] == 't' || is_frozen(pid, thread));
}

void mst_diagnose_thread(pid_t pid, uint64_t thread, uint64_t cpu_ns, uint64_t wall_ns, char *text,
                         size_t room)
{
    char line[512], place[80];
    const char *fields = stat_of(pid, thread, line, sizeof line);
    char state = '\0';

    if (fields != NULL) {
        state = fields[0];
    }
    if (state == '\0' || state == 'Z' || state == 'X') {
        (void)snprintf(text, room, "its thread is gone");
    } else if (is_frozen(pid, thread)) {
        (void)snprintf(text, room, "frozen");
    } else if (state == 'T') {
        (void)snprintf(text, room, "stopped by a signal");
    } else if (state == 't') {
        (void)snprintf(text, room, "stopped by a debugger");
    } else if (state == 'R' ||
               (wall_ns != 0 && (cpu_of(fields) - cpu_ns) >= wall_ns / RUNNING_PART)) {
        (void)snprintf(text, room, "running");
    } else {
        name_place(pid, thread, place, sizeof place);
        (void)snprintf(text, room, "blocked in %s (%s)", place,
                       state == 'D' ? "uninterruptible" : "sleeping");
    }
}

int64_t mst_diagnose_age_ms(pid_t pid)
{
    char text[1024];
    const char *field = field_of(stat_of(pid, 0, text, sizeof text), START_FIELD);
    long per_s = sysconf(_SC_CLK_TCK);
    int64_t age_ms = 0;

    if (field != NULL && per_s > 0) {
        age_ms = mst_clock_ms(CLOCK_BOOTTIME) - (int64_t)strtoull(field, NULL, 10) * 1000 / per_s;
    }
    return age_ms > 0 ? age_ms : 0;
}

bool mst_diagnose_end(pid_t pid, int *status_out)
{
    char path[64], text[1024];
    const char *field;

    /* Of the process: its first thread may be the last that has come to its end. */
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    read_path(path, text, sizeof text);
    field = field_of(fields_of(text), END_FIELD);
    *status_out = field != NULL ? (int)strtol(field, NULL, 10) : 0;
    return *status_out != 0 && (WIFEXITED(*status_out) || WIFSIGNALED(*status_out));
}

void mst_diagnose_blocked(pid_t pid, char *text, size_t room)
{
    char path[64];
    DIR *threads;
    const struct dirent *entry;

    text[0] = '\0';
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    threads = opendir(path);
    while (threads != NULL && text[0] == '\0' && (entry = readdir(threads)) != NULL) {
        if (entry->d_name[0] != '.') {
            read_file(pid, strtoull(entry->d_name, NULL, 10), "wchan", text, room);
            text[strcmp(text, "0") == 0 ? 0 : strlen(text)] = '\0'; /* it waits for nothing */
        }
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
    if (text[0] == '\0') {
        (void)snprintf(text, room, "%s", nameless);
    }
}
