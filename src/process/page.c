/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/page.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "process/proc_stat.h"

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(int), "a futex word is an int");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters shared by processes must not hide a lock");
/* Of a page that an older agent made, what it does not know lies behind its end: zeros, and memory
 * that no other process reads, as long as it is in the same page of memory. */
_Static_assert(sizeof(struct mst_page) <= 4096, "one page of memory, whoever made it");

static bool mutex_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    bool ok;

    if (pthread_mutexattr_init(&attributes) != 0) {
        return false;
    }
    /* Not a PI mutex: the kernel would look for a thread to hand it to. */
    ok = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0 &&
         pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0 &&
         pthread_mutex_init(mutex, &attributes) == 0;
    (void)pthread_mutexattr_destroy(&attributes);
    return ok;
}

static struct mst_page *map(int fd)
{
    void *at = mmap(NULL, sizeof(struct mst_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return at == MAP_FAILED ? NULL : at;
}

/* Of a fixed size, so that neither side can make the other fault by truncating it. */
static int memory_file(void)
{
    int fd = memfd_create("muster-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0) {
        return -1;
    }
    if (ftruncate(fd, (off_t)sizeof(struct mst_page)) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

muster_status mst_page_create(struct mst_page **out, int *fd_out)
{
    int fd = memory_file();
    struct mst_page *page = fd < 0 ? NULL : map(fd);

    if (page == NULL || !mutex_init(&page->alive)) {
        mst_page_unmap(page);
        if (fd >= 0) {
            (void)close(fd);
        }
        return MUSTER_EFAILED;
    }
    page->version = MST_PAGE_VERSION;
    page->size = (uint32_t)sizeof *page;
    atomic_store(&page->rank, UINT32_MAX);
    atomic_store(&page->reached, MST_PAGE_NO_STEP);
    *out = page;
    *fd_out = fd;
    return MUSTER_OK;
}

muster_status mst_page_map(struct mst_page **out, int fd)
{
    struct stat status;
    struct mst_page *page = NULL;

    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size >= (off_t)MST_PAGE_SIZE_MIN) {
        page = map(fd);
    }
    if (page == NULL || page->version != MST_PAGE_VERSION || page->size < MST_PAGE_SIZE_MIN) {
        mst_page_unmap(page);
        return MUSTER_EINVAL;
    }
    *out = page;
    return MUSTER_OK;
}

void mst_page_unmap(struct mst_page *page)
{
    if (page != NULL) {
        (void)munmap(page, sizeof *page);
    }
}

void mst_page_turn(struct mst_page *page, enum mst_page_phase phase)
{
    uint64_t turn = (atomic_load(&page->turn) / 8 + 1) * 8 + (uint64_t)phase;

    atomic_store(&page->start_checks, atomic_load(&page->checks));
    atomic_store(&page->start_pings, atomic_load(&page->pings));
    atomic_store(&page->start_turn, turn); /* before the turn: a reader of that has those */
    atomic_store(&page->turn, turn);
}

/* ---- steps that are done again ---- */

int64_t mst_page_reached(const struct mst_page *page)
{
    int64_t step =
        atomic_load(&page->generation) != 0 ? atomic_load(&page->step) : MST_PAGE_NO_STEP;

    return step != MST_PAGE_NO_STEP ? step : atomic_load(&page->reached);
}

void mst_page_attempt(struct mst_page *page)
{
    atomic_store(&page->reached, mst_page_reached(page));
    atomic_store(&page->repeated, 0);
    atomic_store(&page->step, MST_PAGE_NO_STEP);
}

void mst_page_first_step(struct mst_page *page, int64_t step)
{
    int64_t reached = atomic_load(&page->reached);

    if (reached != MST_PAGE_NO_STEP && step <= reached) {
        atomic_store(&page->repeated, (uint64_t)reached - (uint64_t)step + 1);
    }
}

/* ---- the work of each step ---- */

#define PINGS_MAX 8u /* between two measured steps */

static uint64_t relaxed(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static uint32_t us_of(uint64_t ns, uint64_t pings)
{
    uint64_t us = ns / pings / 1000;

    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

static void end_step(struct mst_page_meter *meter, uint64_t pings)
{
    uint64_t marks = relaxed(&meter->marks), at = marks % MST_METER_STEPS;

    atomic_store_explicit(&meter->work_us[at], us_of(meter->work_ns, pings), memory_order_relaxed);
    atomic_store_explicit(&meter->section_us[at], us_of(meter->section_ns, pings),
                          memory_order_relaxed);
    atomic_store_explicit(&meter->covered, relaxed(&meter->covered) + pings, memory_order_relaxed);
    atomic_store_explicit(&meter->marks, marks + 1, memory_order_release);
    meter->work_ns = meter->section_ns = 0;
}

void mst_page_measure(struct mst_page *page, uint64_t now_ns)
{
    struct mst_page_meter *meter = &page->meter;
    uint64_t turn = relaxed(&page->turn), pings = relaxed(&page->pings);
    uint64_t passed_ns = now_ns - meter->at_ns;

    meter->at_ns = now_ns;
    if (relaxed(&meter->turn) != turn) { /* what came before belongs to no step of this attempt */
        atomic_store_explicit(&meter->marks, 0, memory_order_relaxed);
        atomic_store_explicit(&meter->covered, 0, memory_order_relaxed);
        atomic_store_explicit(&meter->turn, turn, memory_order_release);
        meter->pings = pings;
        meter->work_ns = meter->section_ns = 0;
        return;
    }
    if (relaxed(&page->waits) % 2 == 0) {
        meter->work_ns += passed_ns;
        meter->section_ns += relaxed(&page->section) % 2 != 0 ? passed_ns : 0;
    }
    if (pings != meter->pings) {
        end_step(meter, pings - meter->pings);
        meter->pings = pings;
    }
}

static uint32_t median_of(const _Atomic uint32_t *steps, uint32_t count)
{
    uint32_t sorted[MST_METER_STEPS];

    for (uint32_t i = 0; i < count; i++) {
        uint32_t step = atomic_load_explicit(&steps[i], memory_order_relaxed), at = i;

        for (; at > 0 && sorted[at - 1] > step; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = step;
    }
    return sorted[count / 2];
}

bool mst_page_measured(const struct mst_page *page, uint32_t *work_us_out, uint32_t *section_us_out)
{
    const struct mst_page_meter *meter = &page->meter;
    uint64_t marks = atomic_load_explicit(&meter->marks, memory_order_acquire);
    uint32_t count = marks < MST_METER_STEPS ? (uint32_t)marks : MST_METER_STEPS;

    if (relaxed(&meter->turn) != relaxed(&page->turn) || marks < MST_METER_LEAST ||
        relaxed(&meter->covered) / marks > PINGS_MAX) {
        return false;
    }
    *work_us_out = median_of(meter->work_us, count);
    *section_us_out = median_of(meter->section_us, count);
    return true;
}

static uint64_t now_of(void)
{
    struct timespec now;

    return clock_gettime(CLOCK_MONOTONIC, &now) == 0
               ? (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec
               : 0;
}

void mst_page_wait_begin(struct mst_page *page, const char *what)
{
    size_t size = what != NULL ? strnlen(what, sizeof page->waits_for - 1) : 0;

    if (size > 0) {
        memcpy(page->waits_for, what, size);
    }
    page->waits_for[size] = '\0';
    mst_page_wait_end(page); /* the count grows, and the time is measured, at both ends */
}

void mst_page_wait_end(struct mst_page *page)
{
    uint64_t waits =
        atomic_load_explicit(&page->waits, memory_order_relaxed); /* written here only */

    mst_page_measure(page, now_of());
    atomic_store_explicit(&page->waits, waits + 1, memory_order_release);
}

_Atomic uint32_t *mst_page_word(struct mst_page *page)
{
    /* POSIX has no name for it, the kernel's robust lists do: glibc keeps the word first. */
    return (_Atomic uint32_t *)(void *)&page->alive.__data.__lock;
}

/* The word changed in user space, without a wake-up by the kernel. */
static void wake(struct mst_page *page)
{
    (void)syscall(SYS_futex, mst_page_word(page), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool mst_page_hold(struct mst_page *page)
{
    int error;

    if (mst_page_died(page)) {
        return false;
    }
    error = pthread_mutex_trylock(&page->alive);
    if (error == EOWNERDEAD) {
        /* It died in this moment. Locking took the mark away that the agent looks for. */
        (void)pthread_mutex_unlock(&page->alive);
        (void)atomic_fetch_or(mst_page_word(page), (uint32_t)FUTEX_OWNER_DIED);
        wake(page);
    }
    if (error != 0) {
        return false;
    }
    atomic_store(&page->start, mst_proc_stat_start(0));
    atomic_store(&page->pid, (uint64_t)getpid());
    /* With the bit set here already, a death before the agent has looked is not missed. */
    (void)atomic_fetch_or(mst_page_word(page), (uint32_t)FUTEX_WAITERS);
    wake(page);
    return true;
}

void mst_page_release(struct mst_page *page)
{
    (void)pthread_mutex_unlock(&page->alive);
}

static uint32_t word_of(const struct mst_page *page)
{
    const int *word = &page->alive.__data.__lock;

    return (uint32_t)__atomic_load_n(word, __ATOMIC_SEQ_CST);
}

bool mst_page_held(const struct mst_page *page)
{
    return (word_of(page) & (uint32_t)FUTEX_TID_MASK) != 0;
}

bool mst_page_died(const struct mst_page *page)
{
    return (word_of(page) & (uint32_t)FUTEX_OWNER_DIED) != 0;
}
