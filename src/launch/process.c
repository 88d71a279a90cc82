/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/process.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/run.h"
#include "proto/words.h"

const struct mst_page *mst_process_page(const struct mst_process *process)
{
    return process->page != NULL ? process->page : &process->last;
}

uint64_t mst_process_client(const struct mst_process *process)
{
    return atomic_load(&mst_process_page(process)->pid);
}

uint64_t mst_process_pid(const struct mst_process *process)
{
    uint64_t pid = mst_process_client(process);

    return pid != 0 ? pid : (uint64_t)process->pid;
}

uint64_t mst_process_generation(const struct mst_process *process)
{
    return atomic_load(&mst_process_page(process)->generation);
}

uint32_t mst_process_rank(const struct mst_process *process)
{
    uint32_t rank =
        process->page != NULL ? atomic_load(&process->page->rank) : (uint32_t)MST_RANK_NONE;

    return rank != MST_RANK_NONE ? rank : process->rank;
}

static bool outside(const struct mst_page *page)
{
    return atomic_load(&page->turn) % 8 == MST_PHASE_OUTSIDE;
}

bool mst_process_gave_up(const struct mst_process *process)
{
    const struct mst_page *page = mst_process_page(process);

    return atomic_load(&page->runs_failed) != 0 && outside(page);
}

bool mst_process_aborted(const struct mst_process *process)
{
    return mst_process_gave_up(process) && atomic_load(&mst_process_page(process)->aborts) != 0;
}

/* Without what it was that failed. The rank may have been killed while it wrote it. */
void mst_process_failure(const struct mst_process *process, char *text, size_t room)
{
    static const char what[] = "run: ";
    const char *from = mst_process_page(process)->failure;

    from += strncmp(from, what, sizeof what - 1) == 0 ? sizeof what - 1 : 0;
    (void)snprintf(text, room, "%.*s", (int)(sizeof process->last.failure - sizeof what),
                   mst_process_gave_up(process) ? from : "");
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ') {
            *text = ' ';
        }
    }
}

bool mst_process_returned(const struct mst_process *process)
{
    const struct mst_page *page = mst_process_page(process);

    return atomic_load(&page->turn) != 0 && outside(page);
}

bool mst_process_left(const struct mst_process *process)
{
    return atomic_load(&mst_process_page(process)->left) != 0;
}

bool mst_process_exited(const struct mst_process *process, int *code_out)
{
    uint32_t exited = atomic_load(&mst_process_page(process)->exited);

    if (exited != 0) {
        *code_out = (int)((exited - 1) & 0xff);
    }
    return exited != 0;
}

/* A wrapper is killed as soon as its rank is known to be dead: one that ended well before that says
 * nothing about the rank. */
void mst_process_gone(struct mst_process *process, int status)
{
    bool wrapped = mst_process_pid(process) != (uint64_t)process->pid;
    int code;

    process->end = MST_PROCESS_GONE;
    process->status = status;
    if (wrapped && process->verdict == MST_CAUSE_NONE && mst_process_exited(process, &code)) {
        process->status = code << 8; /* as waitpid gives it */
    } else if (wrapped && status == 0 && mst_page_died(mst_process_page(process))) {
        process->status = SIGKILL;
    }
}

void mst_process_page_end(struct mst_process *process)
{
    if (process->page != NULL) {
        process->rank = mst_process_rank(process);
        memcpy(&process->last, process->page, sizeof process->last);
        mst_page_unmap(process->page);
        process->page = NULL;
    }
}

bool mst_process_failed(const struct mst_process *process)
{
    if (process->verdict == MST_CAUSE_HARD_TIMEOUT) {
        return true;
    }
    /* Python ends by the signal of the Ctrl-C for which it left. */
    if (!WIFEXITED(process->status)) {
        return process->ended_by != 0 || !mst_process_left(process);
    }
    return WEXITSTATUS(process->status) != 0 && WEXITSTATUS(process->status) != MST_EXIT_AGAIN &&
           !mst_process_left(process);
}

int mst_process_code(const struct mst_process *process)
{
    int code =
        WIFEXITED(process->status) ? WEXITSTATUS(process->status) : 128 + WTERMSIG(process->status);

    /* A process that exits with 0 after SIGTERM did not finish its work. */
    return code == 0 && mst_process_failed(process) ? 128 + process->ended_by : code;
}

void mst_status_how(int status, char *text, size_t room)
{
    struct mst_text line = mst_text_in(text, room);
    bool exited = WIFEXITED(status);

    mst_cause_sentence(&line,
                       &(struct mst_caused){.cause = exited ? MST_CAUSE_EXIT : MST_CAUSE_SIGNAL,
                                            .code = exited ? WEXITSTATUS(status) : WTERMSIG(status),
                                            .signal = strsignal(WTERMSIG(status))});
}

void mst_process_how(const struct mst_process *process, char *text, size_t room)
{
    if (process->verdict == MST_CAUSE_LEASE || process->verdict == MST_CAUSE_EVICTED) {
        struct mst_text line = mst_text_in(text, room);

        mst_cause_sentence(&line, &(struct mst_caused){.cause = process->verdict});
        mst_text_add(&line, " and was killed");
    } else if (process->verdict == MST_CAUSE_HARD_TIMEOUT) {
        (void)snprintf(text, room, "%s and was ended", process->why);
    } else if (process->verdict == MST_CAUSE_UNHEALTHY) {
        (void)snprintf(text, room, "is unhealthy: its heartbeats stopped");
    } else if (process->end != MST_PROCESS_GONE) {
        (void)snprintf(text, room, "is dead");
    } else {
        mst_status_how(process->status, text, room);
    }
}

void mst_process_name(const struct mst_process *process, char *text, size_t room)
{
    uint32_t rank = mst_process_rank(process);

    if (rank == MST_RANK_NONE) {
        (void)snprintf(text, room, "#%" PRIu32 " (pid %" PRIu64 ")", process->index,
                       mst_process_pid(process));
    } else {
        (void)snprintf(text, room, "rank %" PRIu32 " (#%" PRIu32 ", pid %" PRIu64 ")", rank,
                       process->index, mst_process_pid(process));
    }
}

/* A wrapper may have put it into a group of its own. */
static void signal_client(const struct mst_process *process, int number)
{
    pid_t client = (pid_t)mst_process_client(process);
    uint64_t start = atomic_load(&mst_process_page(process)->start);

    if (client > 0 && client != process->pid && getpgid(client) != process->pid &&
        mst_tagged_signal(client, start, process->tag, number) && number != SIGKILL) {
        (void)mst_tagged_signal(client, start, process->tag, SIGCONT);
    }
}

void mst_process_signal(const struct mst_process *process, int number)
{
    if (process->page != NULL) {
        atomic_store(&process->page->ends, 1);
    }
    (void)kill(-process->pid, number);
    if (number != SIGKILL) {
        (void)kill(-process->pid, SIGCONT);
    }
    signal_client(process, number);
}
