/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "agent/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/run.h"

uint64_t mst_process_client(const struct mst_process *process)
{
    return process->page != NULL ? atomic_load(&process->page->pid) : process->client_pid;
}

uint64_t mst_process_pid(const struct mst_process *process)
{
    uint64_t pid = mst_process_client(process);

    return pid != 0 ? pid : (uint64_t)process->pid;
}

uint64_t mst_process_generation(const struct mst_process *process)
{
    return process->page != NULL ? atomic_load(&process->page->generation) : process->generation;
}

void mst_process_page_end(struct mst_process *process)
{
    if (process->page != NULL) {
        process->client_pid = atomic_load(&process->page->pid);
        process->generation = atomic_load(&process->page->generation);
        mst_page_unmap(process->page);
        process->page = NULL;
    }
}

bool mst_process_failed(const struct mst_process *process)
{
    return !WIFEXITED(process->status) ||
           (WEXITSTATUS(process->status) != 0 && WEXITSTATUS(process->status) != MST_EXIT_AGAIN);
}

int mst_process_code(const struct mst_process *process)
{
    return WIFEXITED(process->status) ? WEXITSTATUS(process->status)
                                      : 128 + WTERMSIG(process->status);
}

void mst_status_how(int status, char *text, size_t room)
{
    if (WIFEXITED(status)) {
        (void)snprintf(text, room, "ended with status %d", WEXITSTATUS(status));
    } else {
        (void)snprintf(text, room, "was killed by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    }
}

void mst_process_how(const struct mst_process *process, char *text, size_t room)
{
    if (process->verdict == MST_CAUSE_LEASE) {
        (void)snprintf(text, room, "was silent for longer than the lease and was killed");
    } else if (process->verdict == MST_CAUSE_EVICTED) {
        (void)snprintf(text, room, "did not come to the restart in time and was killed");
    } else if (process->end != MST_PROCESS_GONE) {
        (void)snprintf(text, room, "is dead");
    } else {
        mst_status_how(process->status, text, room);
    }
}

void mst_process_name(const struct mst_process *process, char *text, size_t room)
{
    if (process->rank == MST_RANK_NONE) {
        (void)snprintf(text, room, "#%" PRIu32 " (pid %" PRIu64 ")", process->index,
                       mst_process_pid(process));
    } else {
        (void)snprintf(text, room, "rank %" PRIu32 " (#%" PRIu32 ", pid %" PRIu64 ")",
                       process->rank, process->index, mst_process_pid(process));
    }
}

/* Empty where the thread waits for nothing. */
static void wchan(pid_t pid, const char *thread, char *text, size_t room)
{
    char path[64];
    int fd;
    ssize_t got;

    (void)snprintf(path, sizeof path, "/proc/%d/task/%.20s/wchan", (int)pid, thread);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    got = fd < 0 ? -1 : read(fd, text, room - 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
    if (strcmp(text, "0") == 0) {
        text[0] = '\0';
    }
}

void mst_process_blocked(const struct mst_process *process, char *text, size_t room)
{
    char path[64];
    DIR *threads;
    const struct dirent *entry;

    text[0] = '\0';
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)process->pid);
    threads = opendir(path);
    while (threads != NULL && text[0] == '\0' && (entry = readdir(threads)) != NULL) {
        if (entry->d_name[0] != '.') {
            wchan(process->pid, entry->d_name, text, room);
        }
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
    if (text[0] == '\0') {
        (void)snprintf(text, room, "a place the kernel does not name");
    }
}

void mst_process_signal(const struct mst_process *process, int number)
{
    (void)kill(-process->pid, number);
    if (number != SIGKILL) {
        (void)kill(-process->pid, SIGCONT);
    }
}
