/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_client.h"

#include <string.h>

#include "base/panic.h"

struct fake_client fake;

muster_client *fake_client(void)
{
    memset(&fake, 0, sizeof(fake));
    fake.now_ns = UINT64_C(1000000000);
    mst_list_init(&fake.timers);
    return (muster_client *)(void *)&fake; /* nobody looks into it */
}

/* ---- what the tests do ---- */

static void answer(struct mst_lib_post *post, const struct mst_reply *reply, bool local)
{
    MST_ASSERT(post->open);
    post->open = false;
    post->local = local;
    post->complete(post->ctx, reply);
}

void fake_reply(const struct mst_reply *reply)
{
    answer(fake.posts[fake.count - 1], reply, false);
}

void fake_answer(muster_status status)
{
    fake_reply(&(struct mst_reply){.status = status});
}

void fake_end(muster_status status)
{
    const struct mst_reply reply = {.status = status};
    unsigned count = fake.count;

    fake.status = fake.refuses = status;
    for (unsigned i = 0; i < count; i++) {
        if (fake.posts[i] && fake.posts[i]->open) {
            answer(fake.posts[i], &reply, true);
        }
    }
}

static struct mst_lib_timer *due(void)
{
    MST_LIST_EACH(link, following, &fake.timers)
    {
        struct mst_lib_timer *timer = MST_CONTAINER(link, struct mst_lib_timer, link);

        if (timer->at_ns <= fake.now_ns) {
            return timer;
        }
    }
    return NULL;
}

void fake_pass(uint64_t ns)
{
    struct mst_lib_timer *timer;

    fake.now_ns += ns;
    while ((timer = due()) != NULL) {
        mst_list_remove(&timer->link);
        timer->fire(timer->ctx);
    }
}

/* ---- the library ---- */

uint64_t mst_lib_now_ns(void)
{
    return fake.now_ns;
}

void mst_lib_lock(muster_client *client)
{
    MST_ASSERT((void *)client == (void *)&fake);
}

void mst_lib_unlock(muster_client *client)
{
    MST_ASSERT((void *)client == (void *)&fake);
}

muster_status mst_lib_status(const muster_client *client)
{
    MST_ASSERT((const void *)client == (const void *)&fake);
    return fake.status;
}

muster_status mst_lib_post(muster_client *client, const struct mst_request *request,
                           uint64_t deadline_ns, struct mst_lib_post *post)
{
    MST_ASSERT((void *)client == (void *)&fake && fake.count < FAKE_POSTS_MAX);
    (void)deadline_ns;
    fake.requests[fake.count] = *request;
    fake.posts[fake.count++] = fake.refuses == MUSTER_OK ? post : NULL;
    post->open = fake.refuses == MUSTER_OK;
    post->local = false;
    return fake.refuses;
}

void mst_lib_post_drop(muster_client *client, struct mst_lib_post *post)
{
    MST_ASSERT((void *)client == (void *)&fake);
    fake.drops += post->open;
    post->open = false;
}

void mst_lib_timer_set(muster_client *client, struct mst_lib_timer *timer, uint64_t at_ns)
{
    MST_ASSERT((void *)client == (void *)&fake && at_ns > fake.now_ns);
    mst_list_remove(&timer->link);
    timer->at_ns = at_ns;
    mst_list_append(&fake.timers, &timer->link);
}

void mst_lib_timer_stop(struct mst_lib_timer *timer)
{
    mst_list_remove(&timer->link);
}

/* ---- what nothing here comes to ---- */

bool mst_lib_stopped(const muster_client *client)
{
    (void)client;
    return false;
}

const struct mst_view *mst_lib_view(const muster_client *client)
{
    static const struct mst_view view = {0};

    (void)client;
    return &view;
}

muster_status mst_lib_open(muster_client **out, const struct muster_client_options *options,
                           bool replaces, int64_t timeout_ms, struct muster_error *err)
{
    (void)out;
    (void)options;
    (void)replaces;
    (void)timeout_ms;
    (void)err;
    return MUSTER_EINVAL;
}

void muster_client_view(muster_client *client, struct muster_view *out)
{
    (void)client;
    (void)out;
}

void muster_client_close(muster_client *client)
{
    (void)client;
}
