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

/* Per signal: how often it arrived and its last sender, how many handles want it, and its action
 * before. `installed`: our handler is reached, directly or through one that the program installed
 * over it and that may call it. When ours was then installed over that one as well, `topped`,
 * `over` is called first, and `before` when `over` calls ours. */
struct entry {
    atomic_uint count, users;
    _Atomic pid_t from;
    bool installed;
    atomic_bool topped;
    struct sigaction before, over;
};

static struct entry table[MST_SIGNALS_MAX + 1];

/* Of each handle: what the signal handler reads, and the event that it rings. */
static struct {
    _Atomic(const struct mst_page *) page;
    atomic_int event; /* -1: none */
    bool used;
    atomic_bool noticed;
} slots[SLOTS];

static atomic_uint readers; /* signal handlers that use a page or an event just now */

static atomic_int owner; /* the process whose notices these are */

/* The signals whose handler this thread is in. A handler that was installed over ours, and over
 * which ours was installed again, calls ours a second time while it runs; another signal may arrive
 * in between. A third call comes only from a handler that is both, and ends there. */
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

static int number_of(struct mst_slice word)
{
    const char *digits = word.data;
    int number = 0;

    for (size_t i = 0; i < word.size; i++) {
        if (digits[i] < '0' || digits[i] > '9' || number > MST_SIGNALS_MAX) {
            return 0;
        }
        number = number * 10 + (digits[i] - '0');
    }
    return number;
}

/* 0: no such signal. */
static int signal_of(const char *text, size_t size)
{
    bool prefixed = size > 3 && memcmp(text, "SIG", 3) == 0;
    struct mst_slice word = prefixed ? mst_slice_of(text + 3, size - 3) : mst_slice_of(text, size);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (mst_slice_equal(word, mst_slice_text(names[i].name))) {
            return names[i].number;
        }
    }
    return number_of(word);
}

bool mst_signals_unusable(int signal)
{
    const uint64_t never = bit_of(SIGKILL) | bit_of(SIGSTOP) | bit_of(SIGSEGV) | bit_of(SIGBUS) |
                           bit_of(SIGFPE) | bit_of(SIGILL) | bit_of(SIGTRAP) | bit_of(SIGABRT);

    return signal < 1 || signal > MST_SIGNALS_MAX || (never & bit_of(signal)) != 0;
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

        if (mst_signals_unusable(signal) || (signal >= 32 && signal < SIGRTMIN)) {
            return mst_lib_refuse(
                err, "preempt_signals",
                "'%.*s' is no signal that can be a notice (TERM, USR1, INT, or a number)",
                (int)size, text);
        }
        *out |= bit_of(signal);
        if (text[size] == '\0') {
            return MUSTER_OK;
        }
        text += size + 1;
    }
}

/* ---- the handler: async-signal-safe calls only ---- */

/* Whether the agent of this process ends it. */
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

/* A child that opens a handle after fork drops the parent's state. Its descriptors are not closed:
 * a child that has closed all that it inherited may have files of its own there. */
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

bool mst_signals_handle(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == handle;
}

static void install(int signal)
{
    struct entry *entry = &table[signal];
    struct sigaction current;
    struct sigaction ours = {.sa_sigaction = handle};
    bool function;

    if (sigaction(signal, NULL, &current) != 0 ||
        (entry->installed && mst_signals_handle(&current))) {
        return;
    }
    function = (current.sa_flags & SA_SIGINFO) ||
               (current.sa_handler != SIG_DFL && current.sa_handler != SIG_IGN);
    if (entry->installed && function) { /* which may call ours */
        entry->over = current;
        atomic_store(&entry->topped, true);
    } else {
        entry->before = current;
        atomic_store(&entry->topped, false);
        entry->installed = true;
    }
    /* A program with a handler has chosen whether the signal interrupts its calls. */
    ours.sa_flags =
        SA_SIGINFO | SA_ONSTACK | (function ? current.sa_flags & SA_RESTART : SA_RESTART);
    if (function) {
        ours.sa_mask = current.sa_mask;
    }
    (void)sigaction(signal, &ours, NULL);
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

/* Afterwards no signal handler uses a page or an event that a slot had before. */
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

/* A wanted signal by which the library interrupts a function of this process: each interruption
 * would be a notice. 0: none. */
static int interrupting(const struct mst_signals *signals)
{
    for (int i = 1; i <= MST_SIGNALS_MAX; i++) {
        if (wants(signals, i) && mst_interrupt_uses(i)) {
            return i;
        }
    }
    return 0;
}

static uint32_t free_slot(void)
{
    uint32_t slot = 0;

    while (slot < SLOTS && slots[slot].used) {
        slot++;
    }
    return slot;
}

static const char taking[] = "take signals as notices";

static muster_status open_slot(struct mst_signals *signals, const struct mst_page *page,
                               struct muster_error *err)
{
    int interrupts = interrupting(signals);
    uint32_t slot = free_slot();
    char name[MST_SIGNAL_NAME_ROOM];

    if (interrupts != 0) {
        mst_signals_name(name, interrupts);
        return mst_lib_refuse(
            err, taking,
            "%s interrupts the function that runs here (MUSTER_INTERRUPT_SIGNAL), so it is "
            "no notice; name others in MUSTER_PREEMPT_SIGNALS (of a worker: "
            "MUSTER_WORKER_SIGNALS), or set MUSTER_INTERRUPT_SIGNAL to an unused signal",
            name);
    }
    if (slot == SLOTS) {
        return mst_fail(err, MUSTER_ELIMIT, 0,
                        "%s: 16 handles of this process take signals already, which is the limit; "
                        "close one of them",
                        taking);
    }
    signals->event = mst_system_event();
    if (signals->event < 0) {
        return mst_lib_fail_system(err, taking, errno);
    }
    slots[slot].used = signals->open = true;
    signals->slot = slot;
    atomic_store(&slots[slot].page, page);
    atomic_store(&slots[slot].event, signals->event);
    return MUSTER_OK;
}

muster_status mst_signals_open(struct mst_signals *signals, uint64_t wanted,
                               const struct mst_page *page, struct muster_error *err)
{
    muster_status status;

    *signals = (struct mst_signals){.wanted = wanted, .event = -1};
    if (wanted == 0) {
        return MUSTER_OK;
    }
    mst_process_lock(MST_LOCK_SIGNALS);
    begin_process();
    status = open_slot(signals, page, err);
    for (int i = 1; signals->open && i <= MST_SIGNALS_MAX; i++) {
        if (wants(signals, i)) {
            signals->seen[i] = atomic_load(&table[i].count);
            if (atomic_fetch_add(&table[i].users, 1) == 0) {
                install(i);
            }
        }
    }
    mst_process_unlock(MST_LOCK_SIGNALS);
    return status;
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
