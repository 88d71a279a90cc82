/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "client/shell/signals.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "client/shell/handle.h"
#include "client/shell/interrupt.h"
#include "client/shell/process_lock.h"
#include "os/system.h"
#include "process/page.h"

enum { SLOTS = 16 };

/* Per signal: how often it came and who sent it last, how many handles want it, and what it did
 * before. `installed`: our handler is reached, be it directly or through one that was put over it
 * and that may call it. When ours was then put over that one as well, `topped`, it is `over` that
 * is called first, and what was there before when that one calls ours. */
struct entry {
    atomic_uint count, users;
    _Atomic pid_t from;
    bool installed;
    atomic_bool topped;
    struct sigaction before, over;
};

static struct entry table[MST_SIGNALS_MAX + 1];

/* Of each handle: what the handler reads, and rings. */
static struct {
    _Atomic(const struct mst_page *) page;
    atomic_int event; /* -1: none */
    bool used;
    atomic_bool noticed;
} slots[SLOTS];

static atomic_uint readers; /* handlers that use a page or an event just now */

static atomic_int owner; /* the process whose notices these are */

/* The signals whose handler this thread is in: a handler that was put over ours and calls it, when
 * ours was then put over that one, comes here again. Another signal may come in between. A third
 * time it comes only from a handler that is both, and goes no further. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint64_t within, below;

static uint64_t bit_of(int signal)
{
    return UINT64_C(1) << (signal - 1);
}

/* ---- names ---- */

static const struct {
    const char *name;
    int number;
} names[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT},   {"USR1", SIGUSR1},
             {"USR2", SIGUSR2}, {"PIPE", SIGPIPE}, {"ALRM", SIGALRM},   {"TERM", SIGTERM},
             {"CONT", SIGCONT}, {"URG", SIGURG},   {"XCPU", SIGXCPU},   {"XFSZ", SIGXFSZ},
             {"IO", SIGIO},     {"PWR", SIGPWR},   {"WINCH", SIGWINCH}, {"VTALRM", SIGVTALRM}};

void mst_signals_name(char name[MST_SIGNAL_NAME_ROOM], int signal)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].number == signal) {
            mst_text_print(name, MST_SIGNAL_NAME_ROOM, "SIG%s", names[i].name);
            return;
        }
    }
    mst_text_print(name, MST_SIGNAL_NAME_ROOM, "signal %d", signal);
}

static bool same(const char *word, size_t size, const char *name)
{
    return strlen(name) == size && memcmp(word, name, size) == 0;
}

static int number_of(const char *word, size_t size)
{
    int number = 0;

    for (size_t i = 0; i < size; i++) {
        if (word[i] < '0' || word[i] > '9' || number > MST_SIGNALS_MAX) {
            return 0;
        }
        number = number * 10 + (word[i] - '0');
    }
    return number;
}

/* 0: no such signal. */
static int signal_of(const char *word, size_t size)
{
    if (size > 3 && memcmp(word, "SIG", 3) == 0) {
        word += 3;
        size -= 3;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (same(word, size, names[i].name)) {
            return names[i].number;
        }
    }
    return number_of(word, size);
}

/* Those that no handler can have, and those that report an error of the thread itself. */
static bool unusable(int signal)
{
    static const int never[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,
                                SIGFPE,  SIGILL,  SIGTRAP, SIGABRT};

    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        if (signal == never[i]) {
            return true;
        }
    }
    return signal < 1 || signal > MST_SIGNALS_MAX || (signal >= 32 && signal < SIGRTMIN);
}

static muster_status refuse(struct muster_error *err, const char *word, size_t size)
{
    return mst_lib_refuse(err, "preempt_signals",
                          "'%.*s' is no signal that can be a notice (TERM, USR1, INT, or a number)",
                          (int)size, word);
}

muster_status mst_signals_read(uint64_t *out, const char *text, struct muster_error *err)
{
    *out = 0;
    if (*text == '\0' || strcmp(text, "none") == 0) {
        return MUSTER_OK;
    }
    for (;;) {
        size_t size = strcspn(text, ",");
        int signal = signal_of(text, size);

        if (unusable(signal)) {
            return refuse(err, text, size);
        }
        *out |= bit_of(signal);
        if (text[size] == '\0') {
            return MUSTER_OK;
        }
        text += size + 1;
    }
}

/* ---- the handler: nothing here that may not be called in one ---- */

/* Its agent ends this process. */
static bool is_ended(void)
{
    bool ends = false;

    (void)atomic_fetch_add(&readers, 1);
    for (size_t i = 0; i < SLOTS; i++) {
        const struct mst_page *page = atomic_load(&slots[i].page);

        ends = ends || (page && atomic_load(&page->ends) != 0);
    }
    (void)atomic_fetch_sub(&readers, 1);
    return ends;
}

static bool is_noticed(void)
{
    bool noticed = false;

    for (size_t i = 0; i < SLOTS; i++) {
        noticed = noticed || atomic_load(&slots[i].noticed);
    }
    return noticed;
}

static void count(struct entry *entry, const siginfo_t *info)
{
    atomic_store(&entry->from, info && info->si_code <= 0 ? info->si_pid : 0);
    atomic_fetch_add(&entry->count, 1);
    (void)atomic_fetch_add(&readers, 1);
    for (size_t i = 0; i < SLOTS; i++) {
        int event = atomic_load(&slots[i].event);

        if (event >= 0) {
            mst_system_event_ring(event);
        }
    }
    (void)atomic_fetch_sub(&readers, 1);
}

static void pass_on(const struct sigaction *before, int signal, siginfo_t *info, void *context,
                    bool taken)
{
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(signal, info, context);
    } else if (before->sa_handler == SIG_DFL) {
        if (!taken) { /* delivered when this handler returns */
            const struct sigaction standard = {.sa_handler = SIG_DFL};

            (void)sigaction(signal, &standard, NULL);
            (void)raise(signal);
        }
    } else if (before->sa_handler != SIG_IGN) {
        before->sa_handler(signal);
    }
}

static void handle(int signal, siginfo_t *info, void *context)
{
    int saved = errno;
    struct entry *entry = &table[signal];
    bool ours = atomic_load(&owner) == getpid() && atomic_load(&entry->users) > 0;
    bool ends = ours && is_ended();
    bool taken = ours && (!ends || is_noticed());
    bool topped = atomic_load(&entry->topped);

    if (within & bit_of(signal)) {
        if (topped && !(below & bit_of(signal))) {
            below |= bit_of(signal);
            pass_on(&entry->before, signal, info, context, taken);
            below &= ~bit_of(signal);
        }
        errno = saved;
        return;
    }
    within |= bit_of(signal);
    if (ours && !ends) {
        count(entry, info);
    }
    pass_on(topped ? &entry->over : &entry->before, signal, info, context, taken);
    within &= ~bit_of(signal);
    errno = saved;
}

/* ---- opening and closing, with the lock ---- */

/* In a child that opens a handle of its own after fork: what the parent had is not its. Nor is it
 * closed: a child that has closed all it inherited may have files of its own there. */
static void begin_process(void)
{
    if (atomic_load(&owner) == getpid()) {
        return;
    }
    for (size_t i = 0; i < SLOTS; i++) {
        slots[i].used = false;
        atomic_store(&slots[i].event, -1);
        atomic_store(&slots[i].page, NULL);
        atomic_store(&slots[i].noticed, false);
    }
    atomic_store(&readers, 0);
    for (size_t i = 0; i <= MST_SIGNALS_MAX; i++) {
        atomic_store(&table[i].users, 0);
    }
    atomic_store(&owner, getpid());
}

static bool all_taken(void)
{
    bool all = true;

    for (uint32_t i = 0; i < SLOTS; i++) {
        all = all && slots[i].used;
    }
    return all;
}

static bool take_slot(struct mst_signals *signals, const struct mst_page *page)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (slots[i].used) {
            continue;
        }
        signals->event = mst_system_event();
        if (signals->event < 0) {
            return false;
        }
        slots[i].used = signals->open = true;
        signals->slot = i;
        atomic_store(&slots[i].page, page);
        atomic_store(&slots[i].event, signals->event);
        return true;
    }
    return false;
}

bool mst_signals_handle(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == handle;
}

static void install(int signal)
{
    struct entry *entry = &table[signal];
    struct sigaction current;
    struct sigaction ours = {.sa_sigaction = handle};

    if (sigaction(signal, NULL, &current) != 0) {
        return;
    }
    if (!entry->installed || !mst_signals_handle(&current)) {
        bool function = (current.sa_flags & SA_SIGINFO) ||
                        (current.sa_handler != SIG_DFL && current.sa_handler != SIG_IGN);

        if (entry->installed && function) { /* which may call ours */
            entry->over = current;
            atomic_store(&entry->topped, true);
        } else {
            entry->before = current;
            atomic_store(&entry->topped, false);
            entry->installed = true;
        }
        /* Who has a handler has chosen whether its calls are cut short by the signal. */
        ours.sa_flags =
            SA_SIGINFO | SA_ONSTACK | (function ? current.sa_flags & SA_RESTART : SA_RESTART);
        if (function) {
            ours.sa_mask = current.sa_mask;
        }
        (void)sigaction(signal, &ours, NULL);
    }
}

static void restore(int signal)
{
    struct entry *entry = &table[signal];
    struct sigaction current;

    if (sigaction(signal, NULL, &current) != 0 || !mst_signals_handle(&current)) {
        return;
    }
    if (atomic_load(&entry->topped)) {
        (void)sigaction(signal, &entry->over, NULL);
        atomic_store(&entry->topped, false);
    } else {
        (void)sigaction(signal, &entry->before, NULL);
        entry->installed = false;
    }
}

/* No handler uses what was taken from it any more. */
static void await_readers(void)
{
    while (atomic_load(&readers) != 0) {
        (void)sched_yield();
    }
}

static void give_slot(const struct mst_signals *signals)
{
    uint32_t slot = signals->slot;

    atomic_store(&slots[slot].event, -1);
    atomic_store(&slots[slot].noticed, false);
    atomic_store(&slots[slot].page, NULL);
    await_readers();
    if (signals->event >= 0) {
        (void)close(signals->event);
    }
    slots[slot].used = false;
}

void mst_signals_disown(struct mst_signals *signals)
{
    if (signals->open) {
        atomic_store(&slots[signals->slot].event, -1);
        await_readers();
        signals->event = -1;
    }
}

static bool wants(const struct mst_signals *signals, int signal)
{
    return (signals->wanted & bit_of(signal)) != 0;
}

/* A signal by which the library interrupts a function of this process: each interruption would be a
 * notice. 0: none. */
static int interrupting(const struct mst_signals *signals)
{
    for (int i = 1; i <= MST_SIGNALS_MAX; i++) {
        if (wants(signals, i) && mst_interrupt_uses(i)) {
            return i;
        }
    }
    return 0;
}

static muster_status refuse_interrupting(int signal, struct muster_error *err)
{
    char name[MST_SIGNAL_NAME_ROOM];

    mst_signals_name(name, signal);
    return mst_lib_refuse(
        err, "take signals as notices",
        "%s interrupts the function that runs here (MUSTER_INTERRUPT_SIGNAL), so it is "
        "no notice; name others in MUSTER_PREEMPT_SIGNALS (of a worker: "
        "MUSTER_WORKER_SIGNALS), or set MUSTER_INTERRUPT_SIGNAL to a signal nobody uses",
        name);
}

muster_status mst_signals_open(struct mst_signals *signals, uint64_t wanted,
                               const struct mst_page *page, struct muster_error *err)
{
    bool taken, full;
    int interrupts, failed;

    *signals = (struct mst_signals){.wanted = wanted, .event = -1};
    if (wanted == 0) {
        return MUSTER_OK;
    }
    mst_process_lock(MST_LOCK_SIGNALS);
    begin_process();
    interrupts = interrupting(signals);
    full = all_taken();
    taken = interrupts == 0 && take_slot(signals, page);
    failed = errno;
    for (int i = 1; taken && i <= MST_SIGNALS_MAX; i++) {
        if (wants(signals, i)) {
            signals->seen[i] = atomic_load(&table[i].count);
            if (atomic_fetch_add(&table[i].users, 1) == 0) {
                install(i);
            }
        }
    }
    mst_process_unlock(MST_LOCK_SIGNALS);
    if (taken) {
        return MUSTER_OK;
    }
    if (interrupts != 0) {
        return refuse_interrupting(interrupts, err);
    }
    if (!full) {
        return mst_lib_fail_system(err, "take signals as notices", failed);
    }
    return mst_fail(err, MUSTER_ELIMIT, 0,
                    "take signals as notices: 16 handles of this process take signals already, "
                    "which is the limit; "
                    "close one of them");
}

void mst_signals_page(const struct mst_signals *signals, const struct mst_page *page)
{
    if (signals->open) {
        atomic_store(&slots[signals->slot].page, page);
    }
}

void mst_signals_noticed(const struct mst_signals *signals, bool noticed)
{
    if (signals->open) {
        atomic_store(&slots[signals->slot].noticed, noticed);
    }
}

void mst_signals_quiet(const struct mst_signals *signals)
{
    mst_system_event_quiet(signals->event);
}

int mst_signals_next(struct mst_signals *signals, pid_t *from)
{
    for (int i = 1; i <= MST_SIGNALS_MAX; i++) {
        uint32_t count = atomic_load(&table[i].count);

        if (wants(signals, i) && signals->seen[i] != count) {
            signals->seen[i] = count;
            *from = atomic_load(&table[i].from);
            return i;
        }
    }
    return 0;
}

void mst_signals_close(struct mst_signals *signals)
{
    if (!signals->open) {
        return;
    }
    mst_process_lock(MST_LOCK_SIGNALS);
    if (atomic_load(&owner) == getpid()) {
        for (int i = 1; i <= MST_SIGNALS_MAX; i++) {
            if (wants(signals, i) && atomic_fetch_sub(&table[i].users, 1) == 1) {
                restore(i);
            }
        }
        give_slot(signals);
    }
    mst_process_unlock(MST_LOCK_SIGNALS);
    signals->event = -1;
    signals->open = false;
}
