/* SPDX-License-Identifier: Apache-2.0 */

/* Threads called crews, each with up to `room` pages. A crew goes round:
 *
 *   look:  every page of it; set the kernel's FUTEX_WAITERS bit where the page is held (without the
 *          bit the kernel wakes no waiter), note the word; take out those whose holder died
 *   tell:  the dead, one by one, without the lock
 *   wait:  until a noted word has another value, or `bell` rings because the list changed
 *
 * A page taken out of the list may still be looked at or waited on until its crew comes round, so
 * a removal rings and waits for the next round. */

#define _GNU_SOURCE
#include "process/death.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/monotonic.h"
#include "os/short_slice.h"
#include "os/thread.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* The kernel's structure, declared here for systems whose headers are older than their kernel. */
struct wait_word {
    uint64_t value;
    uint64_t address;
    uint32_t flags;
    uint32_t reserved;
};
#define WORD_SHARED_32_BITS 2u

struct entry {
    uint64_t tag;
    struct mst_page *page;
};

struct crew {
    struct mst_death *death;
    struct crew *next;
    pthread_t thread;
    _Atomic uint32_t bell;
    uint64_t rounds; /* looks taken */
    bool calling;    /* `told` runs for `called` */
    uint64_t called;
    unsigned count;
    struct entry entries[MST_DEATH_PAGES_MAX];
};

struct mst_death {
    mst_death_fn *told;
    void *ctx;
    unsigned room; /* of a crew */
    pthread_mutex_t lock;
    pthread_cond_t round; /* a crew came round, or a call ended */
    bool stopping;
    struct crew *crews;
};

static struct wait_word word_of(const void *at, uint32_t value)
{
    return (struct wait_word){
        .value = value, .address = (uint64_t)(uintptr_t)at, .flags = WORD_SHARED_32_BITS};
}

static long futex_waitv(const struct wait_word *words, unsigned count, const struct timespec *until)
{
    return syscall(SYS_futex_waitv, words, count, 0, until, CLOCK_MONOTONIC);
}

static void futex_wake(_Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A version number says little inside containers, so it is tried: one of two words has another
 * value than is waited for; and then the one stays as it is, until the time is over. */
bool mst_death_many_at_once(void)
{
    static uint32_t word;
    const struct wait_word words[] = {word_of(&word, 0), word_of(&word, 1)};
    const struct timespec over = {.tv_sec = 0};

    return futex_waitv(words, 2, NULL) < 0 && errno == EAGAIN && futex_waitv(words, 1, &over) < 0 &&
           errno == ETIMEDOUT;
}

static void crew_ring(struct crew *crew)
{
    (void)atomic_fetch_add(&crew->bell, 1);
    futex_wake(&crew->bell);
}

/* The page's word as it is waited on. */
static uint32_t page_arm(struct mst_page *page)
{
    _Atomic uint32_t *word = mst_page_word(page);
    uint32_t value = atomic_load(word);

    while ((value & (uint32_t)FUTEX_TID_MASK) != 0 && (value & (uint32_t)FUTEX_WAITERS) == 0) {
        if (atomic_compare_exchange_weak(word, &value, value | (uint32_t)FUTEX_WAITERS)) {
            return value | (uint32_t)FUTEX_WAITERS;
        }
    }
    return value;
}

/* What a crew waits for: its bell, then its pages. */
struct watched {
    unsigned count;
    struct wait_word words[MST_DEATH_PAGES_MAX + 1];
};

static void entry_take(struct crew *crew, unsigned at)
{
    crew->count--;
    crew->entries[at] = crew->entries[crew->count];
}

/* One dead entry, taken out; else false, and `watched` is complete. With the lock held. */
static bool crew_look(struct crew *crew, struct watched *watched, uint64_t *dead_out)
{
    watched->count = 1;
    watched->words[0] = word_of(&crew->bell, atomic_load(&crew->bell));
    for (unsigned i = 0; i < crew->count; i++) {
        uint32_t value = page_arm(crew->entries[i].page);

        if ((value & (uint32_t)FUTEX_OWNER_DIED) != 0) {
            *dead_out = crew->entries[i].tag;
            entry_take(crew, i);
            return true;
        }
        watched->words[watched->count++] = word_of(mst_page_word(crew->entries[i].page), value);
    }
    return false;
}

static void crew_tell(struct crew *crew, uint64_t tag)
{
    struct mst_death *death = crew->death;

    crew->calling = true;
    crew->called = tag;
    (void)pthread_mutex_unlock(&death->lock);
    death->told(death->ctx, tag);
    (void)pthread_mutex_lock(&death->lock);
    crew->calling = false;
    (void)pthread_cond_broadcast(&death->round);
}

/* Errors need no care: whatever ended the wait, the words are looked at again. */
static void crew_wait(const struct crew *crew, const struct watched *watched)
{
    const struct wait_word *last = &watched->words[watched->count - 1];

    if (crew->death->room == 1) {
        (void)syscall(SYS_futex, last->address, FUTEX_WAIT, (uint32_t)last->value, NULL, NULL, 0);
    } else {
        (void)futex_waitv(watched->words, watched->count, NULL);
    }
}

static void *crew_main(void *arg)
{
    struct crew *crew = arg;
    struct mst_death *death = crew->death;
    struct watched watched;
    uint64_t dead = 0;

    mst_short_slice();
    (void)pthread_mutex_lock(&death->lock);
    while (!death->stopping) {
        bool died = crew_look(crew, &watched, &dead);

        crew->rounds++;
        (void)pthread_cond_broadcast(&death->round);
        if (died) {
            crew_tell(crew, dead);
            continue;
        }
        (void)pthread_mutex_unlock(&death->lock);
        crew_wait(crew, &watched);
        (void)pthread_mutex_lock(&death->lock);
    }
    (void)pthread_mutex_unlock(&death->lock);
    return NULL;
}

static muster_status crew_new(struct mst_death *death, struct crew **out)
{
    struct crew *crew = calloc(1, sizeof *crew);

    if (crew == NULL) {
        return MUSTER_ENOMEM;
    }
    crew->death = death;
    if (mst_thread_start(&crew->thread, 0, crew_main, crew) != 0) {
        free(crew);
        return MUSTER_EFAILED;
    }
    crew->next = death->crews;
    death->crews = crew;
    *out = crew;
    return MUSTER_OK;
}

muster_status mst_death_new(struct mst_death **out, mst_death_fn *told, void *ctx,
                            enum mst_death_way way)
{
    struct mst_death *death = calloc(1, sizeof *death);

    if (death == NULL) {
        return MUSTER_ENOMEM;
    }
    death->told = told;
    death->ctx = ctx;
    death->room = way == MST_DEATH_BEST && mst_death_many_at_once() ? MST_DEATH_PAGES_MAX : 1;
    (void)pthread_mutex_init(&death->lock, NULL);
    mst_monotonic_cond_init(&death->round);
    *out = death;
    return MUSTER_OK;
}

/* Until the round after the present one has begun. A wake-up can come just before the crew of one
 * page starts to wait on the page's word, which it does not change: so it is repeated. */
static void crew_come_round(struct crew *crew, struct mst_page *page)
{
    struct mst_death *death = crew->death;
    uint64_t target = crew->rounds + 1;

    while (crew->rounds < target) {
        struct timespec until = mst_monotonic_in(1);

        crew_ring(crew);
        if (page != NULL && death->room == 1) {
            futex_wake(mst_page_word(page)); /* such a crew does not wait for its bell */
        }
        (void)pthread_cond_timedwait(&death->round, &death->lock, &until);
    }
}

void mst_death_free(struct mst_death *death)
{
    if (death == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&death->lock);
    for (struct crew *crew = death->crews; crew != NULL; crew = crew->next) {
        struct mst_page *page = crew->count > 0 ? crew->entries[0].page : NULL;

        crew->count = 0;
        crew_come_round(crew, page);
    }
    death->stopping = true;
    (void)pthread_mutex_unlock(&death->lock);
    while (death->crews != NULL) {
        struct crew *crew = death->crews;

        death->crews = crew->next;
        crew_ring(crew);
        (void)pthread_join(crew->thread, NULL);
        free(crew);
    }
    (void)pthread_cond_destroy(&death->round);
    (void)pthread_mutex_destroy(&death->lock);
    free(death);
}

muster_status mst_death_add(struct mst_death *death, uint64_t tag, struct mst_page *page)
{
    struct crew *crew;
    muster_status status = MUSTER_OK;

    (void)pthread_mutex_lock(&death->lock);
    for (crew = death->crews; crew != NULL && crew->count >= death->room; crew = crew->next) {
    }
    if (crew == NULL) {
        status = crew_new(death, &crew);
    }
    if (status == MUSTER_OK) {
        crew->entries[crew->count] = (struct entry){.tag = tag, .page = page};
        crew->count++;
        crew_ring(crew);
    }
    (void)pthread_mutex_unlock(&death->lock);
    return status;
}

static void crew_remove(struct crew *crew, uint64_t tag)
{
    bool own = pthread_equal(pthread_self(), crew->thread) != 0;

    for (unsigned i = 0; i < crew->count; i++) {
        if (crew->entries[i].tag == tag) {
            struct mst_page *page = crew->entries[i].page;

            entry_take(crew, i);
            if (!own) {
                crew_come_round(crew, page);
            }
            return;
        }
    }
    while (!own && crew->calling && crew->called == tag) {
        (void)pthread_cond_wait(&crew->death->round, &crew->death->lock);
    }
}

void mst_death_remove(struct mst_death *death, uint64_t tag)
{
    (void)pthread_mutex_lock(&death->lock);
    for (struct crew *crew = death->crews; crew != NULL; crew = crew->next) {
        crew_remove(crew, tag);
    }
    (void)pthread_mutex_unlock(&death->lock);
}

unsigned mst_death_threads(struct mst_death *death)
{
    unsigned count = 0;

    (void)pthread_mutex_lock(&death->lock);
    for (struct crew *crew = death->crews; crew != NULL; crew = crew->next) {
        count++;
    }
    (void)pthread_mutex_unlock(&death->lock);
    return count;
}
